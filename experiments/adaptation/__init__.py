"""Does adaptation improve released weights on real endoscopy?"""
