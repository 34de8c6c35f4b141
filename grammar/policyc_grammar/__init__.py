"""The grammar of the policy language, as data: `policy.lark`."""
