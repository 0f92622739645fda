"""The words of the grammar of replies: phrases by the kind of token that they become, and marks."""

from __future__ import annotations

_GOOD = r"(?:correct|right|best|my|most likely|chosen|selected|most appropriate)[ _]"
# Kind of token → English phrases, Chinese phrases. The first kind that matches wins.
PHRASES: dict[str, tuple[str, str]] = {
    # A letter behind one of these is a grade or the name of a thing, not an option.
    "NAMED": (
        r"(?:grade|type|class|stage|hepatitis|vitamin|group|figure|fig\.?|panel|image|picture|level|forrest|paris|siewert"
        r"|la|mayo|phase|plan|part|category|score|subtype|borrmann|segment|frame|point|zone) [A-Z]",
        r"[A-Z](?:型|级|期|区)|[图型]\s?[A-Z]",
    ),
    # Phrases with a negation that deny nothing.
    "IDIOM": (
        r"no doubt|without (?:a |any )?doubt|not only|nothing but|none other than|no question|doubtless",
        r"毫无疑问|无疑",
    ),
    "FORCED": (
        r"if (?:i (?:had|have|must|were)|forced|pressed|asked|pushed)"
        r"(?: (?:to|i|pick|choose|guess|answer|select|decide|say|one|commit|make|a|best)){0,6}|(?:my )?best guess",
        r"如果(?:必须|一定要|非要|要)我?选(?:择|一个)?|非要选(?:的话)?",
    ),
    # What others would say, or what would hold of another image.
    "OTHERS": (
        r"(?<!i )(?<!we )(?:would|might|could|may)(?: [a-z]+)?"
        r" (?:choose|pick|select|think|say|answer|guess|assume|expect)"
        r"|(?:user|doctor|endoscopist|physician|student|reader|colleague|label|report|other)s?"
        r" (?:suggests?|says?|said|chooses?|chose|picks?|picked|claims?|claimed|prefers?)",
        r"有人(?:会|可能)?(?:选|认为)",
    ),
    "UNREAL": (r"(?:if|had)(?: [a-z]+){1,4} (?:were|was|had|been)", r"(?:如果|假如|若)[^。不必要]{0,8}则"),
    "UNSURE": (
        r"(?:not|never|cannot|hard to|difficult to|[a-z]{2,6}n't|unable to)(?: [a-z]+)?"
        r" (?:sure|certain|confident|determine|tell|see|know|diagnose|identify)",
        r"不太?(?:确定|清楚)|无法(?:确定|判断|看清|诊断)|不能(?:确定|诊断)|看不清",
    ),
    # They reject what follows, not what they are said of.
    "UNLIKE": (
        r"(?:any|every)thing (?:but|except)|all (?:but|except)|other than|rather than|instead of|apart from|aside from"
        r"|except(?: for)?|besides|excluding|unlike|(?:more|better|rather)(?: [a-z]+){0,3} than|as opposed to"
        r"|over(?= \(?(?-i:[A-Z])\)?(?![A-Za-z0-9]))",
        r"除了?|而非|而不是",
    ),
    "WRONG": (
        r"(?:second|third|2nd|3rd|next|worst|runner-up)(?:[ -](?:best|most likely|likely))?"
        r" (?:answer|choice|option|guess|diagnosis)"
        r"|wrong|incorrect|false|untrue|unlikely|improbable|impossible|implausible|inconsistent|mistaken"
        r"|(?:less|least) (?:likely|probable|plausible|fitting)|exclud[a-z]+|eliminat[a-z]+"
        r"|rul(?:e|es|ed|ing) (?:it )?out"
        r"|dismiss[a-z]*|discard[a-z]*|reject[a-z]*|distractors?|lack[a-z]*|fail[a-z]*|out",
        r"错误?|有误|不正确|排除|可能性(?:较|很)?(?:小|低)",
    ),
    "NEGATE": (
        r"[a-z]{2,6}n't|cannot|can not|cant|isnt|not|never|neither|nor|no|none|nothing|without|hardly"
        r"|refus[a-z]+|declin[a-z]+|avoid[a-z]*|against",
        r"[并绝也都既]{0,2}(?:不(?:是|选|能|可能|应该?|会|像|符合|太)?|没有?|非)",
    ),
    "CONCLUDE": (
        r"therefore|thus|hence|so|consequently|accordingly|in conclusion|in summary|to conclude|conclusion|overall"
        r"|ultimately|verdict",
        r"因此|所以|综上(?:所述)?|总之|结论|故",
    ),
    "CONTRAST": (
        r"but|however|rather|instead|because|since|as|given|due to|then|which|leaving|leaves"
        r"|while|whereas|although|though",
        r"而是|但是?|而|因为|由于|只剩下?|剩下|虽然",
    ),
    # They begin a clause when a mention stands before them: «not A it's C», but not «I don't think it's A».
    "PRONOUN": (r"it's|it is|that's|this is", r"这是"),
    # Behind a mention they leave it open.
    "DOUBT": (r"maybe|perhaps|possibly|possible|unclear", r"也许|或许|不好说"),
    "FINAL": (r"(?:the |my |so |your )?final[ _]?(?:answer|choice|option|decision)s?", r"最终(?:答案|选择)"),
    "DECLARE": (
        rf"(?:{_GOOD}){{0,3}}answers?(?:[ _]letter)?(?: to (?:this|the|your|that) question)?"
        rf"|(?:{_GOOD}){{1,3}}(?:choice|option|diagnosis)"
        r"|i(?:'d| would| will|'ll| must| shall)? (?:choose|pick|select|go (?:with|for)|vote for|opt for)"
        r"|i'm going with",
        r"(?:正确|最佳|我的|本题|参考){0,3}答案|(?:正确|最佳)选项|(?:应该?|我会?|必须|只能)?选(?!项)择?",
    ),
    "OPTION": (r"options?|choices?|letter", r"选项"),
    # Behind a mention: «B is the correct one».
    "RIGHT": (
        r"(?:is|are|was|would be|must be|should be|seems|looks|appears|fits|matches)"
        r"(?: (?:also|clearly|definitely|certainly|probably|therefore|thus|the|most|to be|my|only|much)){0,4}"
        r" (?:correct|right|best|true|answer|choice|more likely|likely|more probable|more plausible|appropriate"
        r"|accurate|plausible|consistent)(?!-| (?:colon|side|flexure|colic|hand|lobe|to be))",
        r"(?:是|为|才是|才|最为?|更)?(?:正确|对的?|符合)的?(?:答案|选项)?",
    ),
    "IF": (r"if|whether|suppose|assuming|unless", r"如果|假如|是否|若"),
    "JOIN": (r"and|or|versus|vs\.?|through", r"和|或者?|与|及|以及|还是"),
    # Words that may stand between «the answer» and the letter.
    "FILLER": (
        r"the|be|is|are|was|would|should|must|will|to|most|likely|probably|definitely|clearly|certainly|we|think"
        r"|believe|say|guess|an|it|this|that|here|just|only|surely|also|again|been|has|have",
        r"还?是|为|应该?|我|认为|觉得|就|该|本|题|的|了|最|可能|也|更|一定|肯定|显然",
    ),
}  # fmt: skip
MARKS = (
    r"(?P<SHARE>\(?\d{1,3}(?:\.\d{1,4})? ?%\)?)|"
    r"(?P<LETTER>[(\"'\[<{]{0,3}(?<![A-Za-z0-9])(?P<letter>[A-Za-z])(?![A-Za-z0-9]|'[a-z]|-[a-z])[)\"'\]>}]{0,3})"
    r"|(?P<JOIN2>[/&+、>|~])|(?P<COMMA>,)|(?P<COLON>[:=\-–—→])|(?P<BREAK>[.!?;。…\n])|(?P<PAREN>[()\[\]{}])"
    r"|(?P<WORD>[A-Za-z0-9%]+(?:'[a-z]+)?|\w)"
)
