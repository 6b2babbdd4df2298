#ifndef SANGAM_COMMON_RPC_COMPLETION_TAG_H_
#define SANGAM_COMMON_RPC_COMPLETION_TAG_H_

#include <memory>
#include <utility>

namespace sangam {

// What every operation on a completion queue of ours is posted with (as CompletionTag*).
class CompletionTag {
 public:
  virtual void Complete(bool ok) = 0;

 protected:
  ~CompletionTag() = default;
};

// The tag of one kind of operation of `Owner`, a member of it. While an operation is pending the
// tag holds the owner (shared, because the operation may complete after everybody else has let go),
// so an owner lives until its last operation has completed. One operation at a time.
template <typename Owner>
class OperationTag final : public CompletionTag {
 public:
  // `completed` is called on the queue's thread when the operation is over.
  explicit OperationTag(void (Owner::*completed)(bool ok)) : completed_(completed) {}
  OperationTag(const OperationTag&) = delete;
  OperationTag& operator=(const OperationTag&) = delete;

  // What to post the operation with.
  // REQUIRES: none is pending.
  void* Arm(std::shared_ptr<Owner> owner) {
    owner_ = std::move(owner);
    return static_cast<CompletionTag*>(this);
  }

  void Complete(bool ok) override {
    // Moved out first: `completed` may post the operation again, or be the owner's end.
    const std::shared_ptr<Owner> owner = std::move(owner_);
    (owner.get()->*completed_)(ok);
  }

 private:
  void (Owner::*const completed_)(bool ok);
  std::shared_ptr<Owner> owner_;
};

}  // namespace sangam

#endif  // SANGAM_COMMON_RPC_COMPLETION_TAG_H_
