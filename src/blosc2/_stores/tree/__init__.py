"""What a `TreeStore` has beyond other stores: groups with attributes, objects of other packages, drawings.

Keys are absolute here, also for a view of a group. Which leaves there are is not decided here, but by `Contents`.
"""
