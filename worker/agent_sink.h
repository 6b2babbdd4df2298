#ifndef SANGAM_WORKER_AGENT_SINK_H_
#define SANGAM_WORKER_AGENT_SINK_H_

#include <cstdint>
#include <utility>

#include "common/rpc/node_agent.h"
#include "proto/cluster_service.pb.h"
#include "worker/runtime/report_sink.h"

namespace sangam {

// Hands what jobs have to tell to the daemon's agent, which must outlive it. Thread-safe.
class AgentSink : public ReportSink {
 public:
  explicit AgentSink(NodeAgent* agent) : agent_(agent) {}
  void Report(uint64_t job, uint64_t generation, v1::JobReport report) override {
    agent_->Report(job, generation, std::move(report));
  }

 private:
  NodeAgent* const agent_;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_AGENT_SINK_H_
