"""What the third question of the IMPLI paper asks: do flexible idioms and overlapping words decide who is right?"""
