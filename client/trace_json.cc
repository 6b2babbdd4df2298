#include "client/trace_json.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "proto/cluster_service.pb.h"

namespace sangam {
namespace {

using Json = nlohmann::ordered_json;

// How an activity is shown. Colours are names that chrome://tracing knows; Perfetto chooses its own
// by the event's name.
struct Look {
  const char* name;
  const char* category;
  const char* colour;
};

Look LookOf(v1::Activity activity) {
  switch (activity) {
    case v1::FORWARD:
      return {"forward", "compute", "thread_state_running"};
    case v1::BACKWARD:
      return {"backward", "compute", "rail_response"};
    case v1::WEIGHT_GRADIENT:
      return {"weight gradient", "compute", "rail_animation"};
    case v1::LOSS:
      return {"loss", "compute", "rail_load"};
    case v1::SEND:
      return {"send", "link", "olive"};
    case v1::RECEIVE:
      return {"receive", "link", "thread_state_iowait"};
    case v1::WAIT:
      return {"wait", "wait", "grey"};
    case v1::PUSH:
      return {"push", "push", "yellow"};
    case v1::LOAD:
      return {"load", "load", "thread_state_uninterruptible"};
    default:
      // Of a newer worker.
      return {"other", "other", "generic_work"};
  }
}

// What every event needs of the whole.
struct Facts {
  uint64_t begin_us = std::numeric_limits<uint64_t>::max();
  // Blocks with which a stage begins; 0 is always there.
  std::set<uint32_t> stage_begin = {0};
};

Facts FactsOf(const v1::JobTrace& trace, const v1::Job& job) {
  Facts facts;
  for (const v1::WorkerTrace& worker : trace.worker()) {
    for (const v1::TraceReport& step : worker.step()) {
      for (const v1::TraceEvent& event : step.event()) {
        facts.begin_us = std::min(facts.begin_us, event.begin_us());
      }
    }
  }
  for (const v1::StageSummary& stage : job.stage()) {
    const auto found = std::find(trace.block().begin(), trace.block().end(), stage.first_block());
    if (found != trace.block().end()) {
      facts.stage_begin.insert(static_cast<uint32_t>(found - trace.block().begin()));
    }
  }
  return facts;
}

std::string BlockName(const v1::JobTrace& trace, uint32_t block) {
  const bool known = block < static_cast<uint64_t>(trace.block_size());
  return known ? trace.block(static_cast<int>(block)) : absl::StrCat("#", block);
}

bool IsPass(v1::Activity activity) {
  return activity == v1::FORWARD || activity == v1::BACKWARD || activity == v1::WEIGHT_GRADIENT;
}

// The blocks of a pass, ascending.
struct Blocks {
  uint32_t first = 0;
  uint32_t last = 0;
};

// The blocks of each event of a step. A pass goes from its block, upwards or downwards, to where
// the next one of the same micro-batch takes over, or to the end of the stage.
std::vector<Blocks> BlocksOf(const v1::JobTrace& trace, const Facts& facts,
                             const v1::TraceReport& step) {
  std::vector<Blocks> blocks(static_cast<size_t>(step.event_size()));
  // By lane, activity, micro-batch and stage: block of the pass that follows.
  std::map<std::array<uint32_t, 4>, uint32_t> following;
  for (int i = step.event_size() - 1; i >= 0; --i) {
    const v1::TraceEvent& event = step.event(i);
    const uint32_t block = event.block();
    Blocks& range = blocks[static_cast<size_t>(i)];
    range = {block, block};
    if (!IsPass(event.activity()) || block >= static_cast<uint64_t>(trace.block_size())) continue;
    const auto end = facts.stage_begin.upper_bound(block);
    const uint32_t stage = *std::prev(end);
    const bool upwards = event.activity() == v1::FORWARD;
    if (upwards) {
      range.last =
          (end == facts.stage_begin.end() ? static_cast<uint32_t>(trace.block_size()) : *end) - 1;
    } else {
      range.first = stage;
    }
    const auto [next, is_last] = following.try_emplace(
        {event.lane(), static_cast<uint32_t>(event.activity()), event.micro_batch(), stage}, block);
    if (is_last) continue;
    // A pass of one block is in pieces where it has to wait, or sends in between.
    if (next->second == block) range = {block, block};
    if (upwards && next->second > block) range.last = next->second - 1;
    if (!upwards && next->second < block) range.first = next->second + 1;
    next->second = block;
  }
  return blocks;
}

// "b0..b1", or "b0" for a single block.
std::string RangeName(const v1::JobTrace& trace, const Blocks& blocks) {
  const std::string first = BlockName(trace, blocks.first);
  return blocks.first == blocks.last ? first
                                     : absl::StrCat(first, "..", BlockName(trace, blocks.last));
}

std::string EventName(const v1::JobTrace& trace, const Blocks& blocks,
                      const v1::TraceEvent& event) {
  const std::string name = LookOf(event.activity()).name;
  const std::string micro_batch = absl::StrCat(" mb ", event.micro_batch());
  switch (event.activity()) {
    case v1::FORWARD:
    case v1::BACKWARD:
    case v1::WEIGHT_GRADIENT:
      return absl::StrCat(name, " ", RangeName(trace, blocks), micro_batch);
    case v1::LOSS:
    case v1::LOAD:
      return absl::StrCat(name, micro_batch);
    case v1::WAIT:
      return absl::StrCat(name, " ", BlockName(trace, event.block()));
    case v1::PUSH:
      return absl::StrCat(name, " ", BlockName(trace, event.block()), " share ",
                          event.micro_batch());
    default:
      return absl::StrCat(name, " ", BlockName(trace, event.block()), micro_batch);
  }
}

// Writes one event after another; a tree of the whole trace would need several times its size.
class Writer {
 public:
  void Add(const Json& event) {
    absl::StrAppend(&text_, text_.empty() ? "\n" : ",\n",
                    event.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  // `kind` is "process_name" or the like; `key` and `value` its argument.
  void AddMetadata(const char* kind, uint64_t pid, uint32_t tid, const char* key,
                   const Json& value) {
    Json event;
    event["ph"] = "M";
    event["name"] = kind;
    event["pid"] = pid;
    event["tid"] = tid;
    event["args"][key] = value;
    Add(event);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

void AddWorker(const v1::JobTrace& trace, const Facts& facts, int index, Writer* writer) {
  const v1::WorkerTrace& worker = trace.worker(index);
  // Chrome takes process 0 for its own.
  const uint64_t pid = static_cast<uint64_t>(index) + 1;
  writer->AddMetadata("process_name", pid, 0, "name",
                      absl::StrCat(worker.worker(), " (rank ", worker.rank(), ")"));
  writer->AddMetadata("process_sort_index", pid, 0, "sort_index", index);
  std::set<uint32_t> lanes;
  for (const v1::TraceReport& step : worker.step()) {
    for (const v1::TraceEvent& event : step.event()) lanes.insert(event.lane());
  }
  for (const uint32_t lane : lanes) {
    writer->AddMetadata("thread_name", pid, lane, "name", absl::StrCat("lane ", lane));
    writer->AddMetadata("thread_sort_index", pid, lane, "sort_index", lane);
  }
  for (const v1::TraceReport& step : worker.step()) {
    const std::vector<Blocks> blocks = BlocksOf(trace, facts, step);
    for (int i = 0; i < step.event_size(); ++i) {
      const v1::TraceEvent& event = step.event(i);
      const Look look = LookOf(event.activity());
      Json json;
      json["ph"] = "X";
      json["name"] = EventName(trace, blocks[static_cast<size_t>(i)], event);
      json["cat"] = look.category;
      json["cname"] = look.colour;
      json["pid"] = pid;
      json["tid"] = event.lane();
      json["ts"] = event.begin_us() - facts.begin_us;
      json["dur"] = event.duration_us();
      json["args"]["step"] = step.step();
      json["args"][event.activity() == v1::PUSH ? "share" : "micro_batch"] = event.micro_batch();
      json["args"]["block"] = BlockName(trace, event.block());
      writer->Add(json);
    }
  }
}

}  // namespace

std::string ToChromeTrace(const v1::JobTrace& trace, const v1::Job& job) {
  const Facts facts = FactsOf(trace, job);
  Writer writer;
  for (int i = 0; i < trace.worker_size(); ++i) AddWorker(trace, facts, i, &writer);
  Json origin;
  origin["job"] = trace.job();
  origin["name"] = trace.name();
  return absl::StrCat("{\"displayTimeUnit\":\"ms\",\"otherData\":",
                      origin.dump(-1, ' ', false, Json::error_handler_t::replace),
                      ",\"traceEvents\":[", writer.text(), "\n]}\n");
}

}  // namespace sangam
