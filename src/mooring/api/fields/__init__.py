"""What Kubernetes types consist of, as data: one generated table and the readers that walk it.

| module | answers |
|---|---|
| `table` | which fields a kind has, and what is known of each |
| `unknown` | which fields of an object its kind does not have |
| `mismatches` | which values of an object have the wrong JSON type |
| `protobuf` | which object a protobuf request body stands for |

`api.patches.strategic` reads the table for list merge keys. Pure, and lazy: the table is read at first use. It
is not validation: it knows the shape of an object, not what its values may be.
"""
