"""The records of plan.json: nothing is computed here but its digest."""
