#ifndef SANGAM_WORKER_RPC_SERVED_BATCHES_H_
#define SANGAM_WORKER_RPC_SERVED_BATCHES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/backoff.h"
#include "common/rpc/activity_count.h"
#include "common/rpc/completion_queue_thread.h"
#include "proto/plan.pb.h"
#include "worker/data/batch_buffers.h"
#include "worker/data/batch_source.h"
#include "worker/rpc/batch_assembly.h"
#include "worker/rpc/feed_connection.h"
#include "worker/runtime/batch_feed.h"

namespace sangam {

// The batches of a worker whose data the coordinator serves. Asks ahead for every free buffer of
// every lane, so that samples travel while lanes compute; one thread calls the sequence and asks,
// another receives the answers and copies them to their place.
class ServedBatches final : public BatchSource, private FeedOwner {
 public:
  struct Options {
    std::string coordinator;  // "host:port"
    // See FeedConnection.
    size_t max_unanswered = 64;
    absl::Duration connect_deadline = absl::Seconds(30);
    Backoff::Options backoff;
  };

  // Sets the memory aside and begins to ask. A BatchFeedFactory, bound to its options.
  // REQUIRES: lanes, ahead and held are at least 1.
  // Errors: InvalidArgument    the plan has no such worker, or what is wanted contradicts its
  // blocks
  //         ResourceExhausted  the memory cannot be had
  static absl::StatusOr<std::unique_ptr<BatchSource>> Create(const Options& options,
                                                             const v1::Plan& plan, uint32_t worker,
                                                             const BatchOptions& batches,
                                                             BatchSequence sequence);
  // The same, as a factory.
  static BatchFeedFactory Factory(const Options& options);
  ~ServedBatches() override;

  // BatchSource. Errors of Take: also the coordinator's (proto/data_service.proto), and Unavailable
  // when it could not be reached in time.
  absl::StatusOr<Batch> Take(size_t lane, absl::Duration timeout) override;
  void Stop() override;

 private:
  ServedBatches(std::unique_ptr<BatchBuffers> buffers, BatchSequence sequence);

  // FeedOwner.
  void OnAnswered(const BatchAssembly& answer) override;
  void OnFeedEnded(const absl::Status& status) override;

  void Start(FeedConnection::Options options);
  // Asks for one batch after the other until stopped.
  void AskAhead();

  const std::unique_ptr<BatchBuffers> buffers_;
  const BatchSequence sequence_;
  ActivityCount activities_;
  CompletionQueueThread receiver_;
  // Shared with its pending operations. Set by Start.
  std::shared_ptr<FeedConnection> connection_;
  std::thread asker_;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_RPC_SERVED_BATCHES_H_
