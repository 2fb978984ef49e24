"""Random mutants set aside: {key: why nothing that anybody can see is different}.

A key names its mutant for as long as its line stays the same (operators.Mutant). A mutant is here
only where the reason holds for every input, or where it changes how fast something is and no more.
"""

EQUIVALENTS = {
}
