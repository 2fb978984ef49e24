"""Bugs that run.py plants one at a time: (name, file, old text, new text, what goes wrong in life).

An old text is in its file exactly once, or run.py refuses to start: then the code has moved on and
the bug has to be planted where it belongs now.
"""

from collections import namedtuple

PlantedBug = namedtuple("PlantedBug", "name file old new stands_for")

POOL = "paged_kv/block_pool.cc"
TABLE = "paged_kv/block_table.cc"
CACHE = "paged_kv/prefix_cache.cc"
MATCH = "paged_kv/prefix_cache_match.cc"
SCHEDULER = "scheduler/scheduler.cc"
ADMISSION = "scheduler/admission.cc"
PREEMPTION = "scheduler/preemption.cc"
PREFIX_WAIT = "scheduler/prefix_wait.cc"
COMMIT = "scheduler/commit.cc"
FORK = "scheduler/fork.cc"
BUDGET = "scheduler/budget.cc"

BLOCKS = [
    PlantedBug(
        "drop the fence", POOL,
        "if (block.fence > committed_) {",
        "if (false) {",
        "a block is free while a step in flight still names it"),
    PlantedBug(
        "fence of the last holder only", POOL,
        "block.fence = std::max(block.fence, last_step);",
        "block.fence = last_step;",
        "who lets go last had no step in flight, but one before had"),
    PlantedBug(
        "fence ends a step too early", POOL,
        "if (entry.step > step) {",
        "if (entry.step > step + 1) {",
        "off by one between steps planned and steps committed"),
    PlantedBug(
        "an old fence frees a block fenced anew", POOL,
        "block.place == Place::kFenced && block.fence == entry.step",
        "block.place == Place::kFenced",
        "a queue entry outlives what it was made for (ABA)"),
    PlantedBug(
        "held again, and still up for eviction", POOL,
        "if (was_idle) listener_->OnHeldAgain(id);",
        "",
        "a cache evicts what somebody has just begun to use"),
    PlantedBug(
        "the last block is never handed out", POOL,
        "for (; num_touched_ < n; ++num_touched_) {",
        "for (; num_touched_ < n - 1; ++num_touched_) {",
        "capacity is lost to an off-by-one"),
    PlantedBug(
        "one block too many leaves the window", TABLE,
        "const int32_t end = std::min(block_idx, num_blocks());",
        "const int32_t end = std::min(block_idx + 1, num_blocks());",
        "sliding window off by one: a block is given back that is still seen"),
    PlantedBug(
        "the first block of a table leaks", TABLE,
        "for (int32_t i = num_blocks() - 1; i >= 0; --i) {",
        "for (int32_t i = num_blocks() - 1; i > 0; --i) {",
        "memory leaks with every request"),
    PlantedBug(
        "off by one in the table", PREEMPTION,
        "const int32_t blocks_to_end = (end + config_.block_size - 1) / config_.block_size;",
        "const int32_t blocks_to_end = end / config_.block_size;",
        "a row has no slot: KV is written past the end"),
    PlantedBug(
        "a block more than needed", PREEMPTION,
        "const int32_t blocks_to_end = (end + config_.block_size - 1) / config_.block_size;",
        "const int32_t blocks_to_end = end / config_.block_size + 1;",
        "ceil(n / b) written as n / b + 1: memory is wasted at every border"),
    PlantedBug(
        "end without a fence", SCHEDULER,
        "sequence->table.DropAll(sequence->last_step, &pool_);",
        "sequence->table.DropAll(0, &pool_);",
        "free too early: a cancelled request's step still writes"),
    PlantedBug(
        "out of the window without a fence", SCHEDULER,
        "sequence->last_step, &pool_);\n    }",
        "0, &pool_);\n    }",
        "free too early: a step in flight still sees the block"),
]

PREFIXES = [
    PlantedBug(
        "compare only the hash", CACHE,
        "nodes_[index].tokens != tokens",
        "false",
        "a hash collision serves somebody else's prefix"),
    PlantedBug(
        "equal tokens under another parent", CACHE,
        "nodes_[index].parent != parent",
        "false",
        "a block is found by its own tokens, whatever came before them"),
    PlantedBug(
        "tenants share a root", PREFIX_WAIT,
        "cache_.Match(sequence.request->cache_salt, ",
        "cache_.Match(\"\", ",
        "one tenant is served from the cache of another"),
    PlantedBug(
        "a node that is gone is taken for alive", CACHE,
        "  ++node.generation;\n",
        "",
        "a reference outlives its node, and the place is used again (ABA)"),
    PlantedBug(
        "replace blocks that are held", CACHE,
        "if (!IsIdle(nodes_[index])) return {};",
        "",
        "a cache entry is overwritten under its readers"),
    PlantedBug(
        "evict what is held", CACHE,
        "is_candidate = windows_[group] > 0 || pool_->is_idle(node.blocks[group]);",
        "is_candidate = true;",
        "a cache entry is evicted under its readers"),
    PlantedBug(
        "a leaf is never offered", CACHE,
        "--nodes_[node.parent].num_children;\n    UpdateOffer(node.parent);",
        "--nodes_[node.parent].num_children;",
        "cached memory that can never be had again"),
    PlantedBug(
        "a full hit is looked up one token too far", MATCH,
        "const int32_t query = std::min(end, num_tokens - 1);",
        "const int32_t query = end;",
        "window off by one where the whole prompt is cached"),
    PlantedBug(
        "prompt logits from the cache", MATCH,
        "begin + block_size_ <= max_tokens",
        "begin + block_size_ <= num_tokens",
        "rows that the client asked for are not computed"),
    PlantedBug(
        "a part of somebody else's child", MATCH,
        "if (node.parent != parent || common <=",
        "if (common <=",
        "the copied block has other tokens before it"),
    PlantedBug(
        "skip a Hold", MATCH,
        "pool_->Hold(held[group]);",
        "if (i > 0 || pool_->num_holders(held[group]) == 0) pool_->Hold(held[group]);",
        "a shared block has one holder less than it should"),
    PlantedBug(
        "publish before commit", SCHEDULER,
        "sequence->num_computed_tokens = end;\n",
        "sequence->num_computed_tokens = end;\n"
        "  if (end <= static_cast<int32_t>(tokens.size())) {\n"
        "    sequence->num_committed_tokens = end;\n"
        "    PublishBlocks(sequence);\n"
        "  }\n",
        "others read KV that is not written yet, or never will be"),
    PlantedBug(
        "a promise outlives its owner", PREFIX_WAIT,
        "    cache_.ErasePending(nodes.back());\n",
        "",
        "forget a waiter: the one it waits for is gone"),
    PlantedBug(
        "a waiter is told nothing new", PREFIX_WAIT,
        "return cache_.IsPending(sequence.waiting_on);",
        "return !sequence.waiting_on.is_none();",
        "forget a waiter: it sleeps on after what it waited for has come"),
    PlantedBug(
        "waiters lend no priority", PREFIX_WAIT,
        "owner->effective_priority = std::max(",
        "(void)std::max(",
        "priority inversion"),
]

FAIRNESS = [
    PlantedBug(
        "ignore the budget of rows", ADMISSION,
        "draft->budget.Spend(first, chunk, wants_rows ? chunk : 1);",
        "",
        "a step is larger than the buffers it was given"),
    PlantedBug(
        "ignore the budget of logit rows", BUDGET,
        "if (with_logits) rows = std::min(rows, logit_rows_left_);",
        "",
        "more rows with logits than the buffer has"),
    PlantedBug(
        "ignore the budget of time", BUDGET,
        "return std::max(rows_in_any_case_, RowsInTime(position, rows));",
        "return rows;",
        "a long prompt stalls everybody's next token"),
    PlantedBug(
        "starve the head", ADMISSION,
        "for (Sequence* passed : blocked) ++passed->times_passed;",
        "",
        "a large request waits for ever behind small ones"),
    PlantedBug(
        "last come, first served", SCHEDULER,
        "  return a->IsOlderThan(*b);\n}\n",
        "  return b->IsOlderThan(*a);\n}\n",
        "a queue that is a stack"),
    PlantedBug(
        "a victim goes to the end of the queue", PREEMPTION,
        "  EnterQueue(sequence);\n",
        "  sequence->arrival = next_arrival_++;\n  EnterQueue(sequence);\n",
        "whoever is preempted once is preempted again and again"),
    PlantedBug(
        "a victim's row is lost", PREEMPTION,
        "if (sequence->num_remaining() > 0) "
        "draft->budget.GiveBack(sequence->num_computed_tokens);",
        "",
        "budget leaks within a step"),
    PlantedBug(
        "preempt those that are protected", PREEMPTION,
        "if (!(*it)->full_reservation) return *it;",
        "return *it;",
        "livelock: the same request is preempted without end"),
    PlantedBug(
        "reservations are not kept", PREEMPTION,
        "return sequence.full_reservation ? ClaimOf(sequence) : 0;",
        "return 0;",
        "deadlock: what was set aside for one is given to others"),
    PlantedBug(
        "newcomers take what is waited for", PREEMPTION,
        "draft->promised_blocks += num_blocks;",
        "",
        "one that waits for fenced blocks is overtaken for ever"),
    PlantedBug(
        "revived blocks count as free", ADMISSION,
        "promised_blocks - num_revived;",
        "promised_blocks;",
        "memory is counted twice: as cached and as free"),
    PlantedBug(
        "the watermark has no ceiling", "scheduler/watermark.h",
        "blocks_ = std::min(highest_, blocks_ + rise_);",
        "blocks_ += rise_;",
        "a ratchet: after enough preemptions nothing is admitted beside another"),
    PlantedBug(
        "the queue takes one too many", ADMISSION,
        "waiting_.size()) >= config_.max_queued_requests",
        "waiting_.size()) > config_.max_queued_requests",
        "a limit that is not kept"),
]

LIVES = [
    PlantedBug(
        "back in a step that still computes it", ADMISSION,
        "if (sequence->num_steps_in_flight > 0 || ",
        "if (",
        "a preempted request is admitted twice over: its old step commits into its new life"),
    PlantedBug(
        "what runs has no deadline", SCHEDULER,
        "for (Sequence* sequence : running_) check(sequence);",
        "",
        "a deadline is looked at in the queue only"),
    PlantedBug(
        "a queue timeout hits what has run", SCHEDULER,
        "now >= request.queue_deadline && sequence->first_scheduled_at == kNever",
        "now >= request.queue_deadline",
        "a preempted request is told that it never began"),
    PlantedBug(
        "end twice", SCHEDULER,
        "} else if (now >= request.time_limit) {",
        "}\n    if (now >= request.time_limit) {",
        "two reasons at once, two ends"),
    PlantedBug(
        "unborn choices are forgotten", SCHEDULER,
        "i < sequence->num_unborn",
        "i < 0",
        "a client waits for choices that will never be"),
    PlantedBug(
        "a failed step is cancelled too late", COMMIT,
        "  EndRequested(&out.ended);\n  for (const InFlightPart&",
        "  for (const InFlightPart&",
        "an error path forgets what the normal path does"),
    PlantedBug(
        "a failed step keeps its fence", COMMIT,
        "    }\n  }\n  pool_.CommitStep(step_id);",
        "    }\n  }",
        "memory leaks where a step fails"),
    PlantedBug(
        "garbage in a chunk is overlooked", COMMIT,
        "if (!result.finite) {",
        "if (!result.finite && part.num_draws > 0) {",
        "NaN in KV is published and served to others"),
    PlantedBug(
        "one token too many", COMMIT,
        "sequence->num_generated() >= sequence->max_tokens",
        "sequence->num_generated() > sequence->max_tokens",
        "max_tokens off by one"),
    PlantedBug(
        "all choices get the first one's token", COMMIT,
        "CommitToken(drawn_[i], result.token_ids[i], out)",
        "CommitToken(drawn_[i], result.token_ids[0], out)",
        "choices that are not independent"),
    PlantedBug(
        "fork from what is not computed", FORK,
        "if (first->num_committed_tokens < position) return nullptr;",
        "",
        "a choice continues from blocks that are being recomputed"),
    PlantedBug(
        "forget the copy on write", FORK,
        "CopyLastBlock(sequence, partial, position, draft);",
        "TakeBlocks(sequence, position);",
        "a forked choice begins with an empty last block"),
    PlantedBug(
        "copy without a fence", ADMISSION,
        "pool_.Drop(sources[group], draft->plan.step_id);",
        "pool_.Drop(sources[group], 0);",
        "the source of a copy is handed out before it is copied"),
    PlantedBug(
        "write into a shared block", ADMISSION,
        "sequence->last_token_cached = match.num_tokens > first_position;",
        "sequence->last_token_cached = false;",
        "a full hit computes its last row into everybody's block"),
]

PLANTED_BUGS = BLOCKS + PREFIXES + FAIRNESS + LIVES
