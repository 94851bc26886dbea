"""What a rule can see of the state.

The files, in the order in which they may import one another:
    offers  one device as one job would find it, kept while nothing there has changed
    view    the state, read-only
"""

from radrm.core.view.offers import Answers, Holder, Offer, Offers
from radrm.core.view.view import View

__all__ = ["Answers", "Holder", "Offer", "Offers", "View"]
