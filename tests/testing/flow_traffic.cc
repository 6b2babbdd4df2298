#include "tests/testing/flow_traffic.h"

#include <algorithm>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/plan/pipeline_layout.h"
#include "common/tensor/buffer.h"
#include "worker/core/flow_map.h"
#include "worker/core/flow_tag.h"
#include "worker/runtime/pipeline_link.h"

namespace sangam::testing {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(30);

// One lane of one worker.
class Lane {
 public:
  Lane(const FlowTraffic& traffic, const v1::Plan& plan, uint32_t worker, uint32_t lane,
       PipelineLink* link)
      : traffic_(traffic),
        plan_(plan),
        worker_(worker),
        lane_(lane),
        map_(FlowMap::Create(plan, worker, plan.lanes()).value()),
        link_(link) {}

  absl::Status Run() {
    for (uint64_t step = 0; step < traffic_.steps; ++step) {
      for (uint32_t m = 0; m < plan_.micro_batches(); ++m) {
        if (!IsMine({step, false, m, 0, FlowDirection::kForward})) continue;
        RETURN_IF_ERROR(Forward({step, false, m, 0, FlowDirection::kForward}));
        RETURN_IF_ERROR(Backward({step, false, m, 0, FlowDirection::kBackward}));
      }
      for (uint32_t c = 0; c < traffic_.chunks; ++c) {
        const FlowTag tag = {step, true, c, 0, FlowDirection::kForward};
        if (IsMine(tag)) RETURN_IF_ERROR(Forward(tag));
      }
    }
    return absl::OkStatus();
  }

 private:
  bool IsMine(const FlowTag& tag) const {
    const absl::StatusOr<FlowRoute> route = map_.RouteOf(tag);
    return route.ok() && route->lane == lane_;
  }

  FlowShape ShapeOf(const FlowTag& tag, const FlowEdge& edge) const {
    return {1 + (tag.micro_batch + tag.step) % traffic_.max_rows, edge.boundary.columns};
  }

  absl::Status Forward(FlowTag tag) {
    for (uint32_t chunk = 0; chunk < ChunksOf(plan_); ++chunk) {
      const uint32_t stage = StageOf(plan_, worker_, chunk);
      RETURN_IF_ERROR(Move(tag, stage, false));
      RETURN_IF_ERROR(Move(tag, stage, true));
    }
    return absl::OkStatus();
  }

  absl::Status Backward(FlowTag tag) {
    for (uint32_t chunk = ChunksOf(plan_); chunk-- > 0;) {
      const uint32_t stage = StageOf(plan_, worker_, chunk);
      RETURN_IF_ERROR(Move(tag, stage, false));
      RETURN_IF_ERROR(Move(tag, stage, true));
    }
    return absl::OkStatus();
  }

  // Sends (or receives) everything that leaves (or comes to) the stage.
  absl::Status Move(FlowTag tag, uint32_t stage, bool send) {
    for (const FlowEdge& edge : map_.edges()) {
      const bool at_front = send == (tag.direction == FlowDirection::kForward);
      if ((at_front ? edge.boundary.from_stage : edge.boundary.to_stage) != stage) continue;
      tag.boundary = edge.boundary.id;
      const FlowShape shape = ShapeOf(tag, edge);
      RETURN_IF_ERROR(send ? SendTensor(link_, lane_, tag, shape)
                           : ReceiveTensor(link_, lane_, tag, shape));
    }
    return absl::OkStatus();
  }

  const FlowTraffic& traffic_;
  const v1::Plan& plan_;
  const uint32_t worker_;
  const uint32_t lane_;
  const FlowMap map_;
  PipelineLink* const link_;
};

}  // namespace

float FlowElement(const FlowTag& tag, uint64_t index) {
  const uint64_t name = tag.step * 131 + tag.micro_batch * 31 + tag.boundary * 7 +
                        (tag.evaluation ? 3 : 0) +
                        (tag.direction == FlowDirection::kBackward ? 5 : 0);
  return static_cast<float>((name * 1009 + index) % 1000003);
}

absl::Status SendTensor(PipelineLink* link, uint32_t lane, const FlowTag& tag, FlowShape shape) {
  ASSIGN_OR_RETURN(FloatBuffer buffer, link->Reserve(lane, tag.boundary, tag.direction, kPatience));
  for (uint64_t i = 0; i < shape.elements(); ++i) buffer.data()[i] = FlowElement(tag, i);
  return link->Send(lane, tag, shape, std::move(buffer));
}

absl::Status ReceiveTensor(PipelineLink* link, uint32_t lane, const FlowTag& tag, FlowShape shape) {
  ASSIGN_OR_RETURN(const FloatBuffer buffer, link->Receive(lane, tag, shape, kPatience));
  for (uint64_t i = 0; i < shape.elements(); ++i) {
    if (buffer.data()[i] == FlowElement(tag, i)) continue;
    return absl::InternalError(absl::StrCat(ToString(tag), ", element ", i, ": found ",
                                            buffer.data()[i], ", expected ", FlowElement(tag, i)));
  }
  return absl::OkStatus();
}

absl::Status RunTraffic(const FlowTraffic& traffic, const v1::Plan& plan,
                        const std::vector<PipelineLink*>& links) {
  Mutex mutex;
  absl::Status first;
  std::vector<std::thread> threads;
  for (uint32_t worker = 0; worker < links.size(); ++worker) {
    for (uint32_t lane = 0; lane < plan.lanes(); ++lane) {
      threads.emplace_back([&, worker, lane] {
        const absl::Status status = Lane(traffic, plan, worker, lane, links[worker]).Run();
        if (status.ok()) return;
        MutexLock lock(&mutex);
        if (first.ok()) first = status;
        for (PipelineLink* link : links) link->Stop();
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
  return first;
}

}  // namespace sangam::testing
