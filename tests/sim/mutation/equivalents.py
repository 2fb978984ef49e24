"""Random mutants set aside: {key: why nothing that anybody can see is different}.

A key names its mutant for as long as its line stays the same (operators.Mutant). A mutant is here
only where the reason holds for every input, or where it changes how fast something is and no more.
"""

EQUIVALENTS = {
    "paged_kv/prefix_cache.cc: group_of_block_[block] = -1;: deleted: group_of_block_[block] = -1;":
        "it is read only for blocks that have a node",
    "paged_kv/prefix_cache.cc: hash_mask_(config.hash_bits >= 64 ? ~uint64_t{0} : "
    "(uint64_t{1} << config.hash_bits) - 1),: 1 -> 0":
        "gives all 64 bits where tests ask for fewer: a hash finds, the tokens decide",
    "paged_kv/prefix_cache.cc: first_by_hash_.reserve(pool->num_blocks());: "
    "deleted: first_by_hash_.reserve(pool->num_blocks());": "speed only",
    "paged_kv/prefix_cache.cc: int32_t index = first == first_by_hash_.end() ? -1 : "
    "first->second;: 1 -> 0":
        "node 0 is compared by parent and tokens like any other, so it is not taken for the child",
    "paged_kv/prefix_cache.cc: node.hash = absl::HashOf(salt);: "
    "deleted: node.hash = absl::HashOf(salt);":
        "children of two roots share hashes then; parent and tokens tell them apart",
    "paged_kv/prefix_cache_match.cc: if (end > match.num_tokens) {: > -> >=":
        "an empty rest has no part in common with anything",
    "scheduler/admission.cc: sequence->num_committed_tokens = match.num_tokens;: "
    "deleted: sequence->num_committed_tokens = match.num_tokens;":
        "the first commit sets it before anything reads it",
    "scheduler/fork.cc: sequence->num_committed_tokens = position;: "
    "deleted: sequence->num_committed_tokens = position;":
        "the first commit sets it before anything reads it",
    "scheduler/fork.cc: if (!draft->budget.HasLogitRow() || "
    "draft->budget.LargestChunk(position, 1, false) == 0) {: false -> true":
        "a logit row is left, so it does not bound a chunk of one row",
    "scheduler/prefix_wait.cc: sequence->publishes = !node.is_none();: "
    "deleted: sequence->publishes = !node.is_none();":
        "below a node that is none nothing is published either: it only tries again",
}
