"""What do small students keep of a real teacher, and what would they learn alone?"""
