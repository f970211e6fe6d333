"""The first hour on a box: a schedule, what came of it, and what Upright was wrong about.

schedule   box + limits -> steps, what is known least first      running   steps -> outcomes, each kept before the next
claims     the README's table -> held, wrong or not judged       wrong     planned against measured, worst first
"""
