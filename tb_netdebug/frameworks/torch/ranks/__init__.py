"""Several processes that train one model: what they agree on, and what lies in parts on all of them."""
