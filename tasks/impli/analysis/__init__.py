"""The third question of the IMPLI paper: do flexible idioms and word overlap decide whether a model is right?"""
