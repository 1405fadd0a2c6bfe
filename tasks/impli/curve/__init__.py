"""The second question of the IMPLI paper: how much do models learn about an idiom from other idioms?"""
