#ifndef SANGAM_COMMON_RPC_CALL_PLACES_H_
#define SANGAM_COMMON_RPC_CALL_PLACES_H_

#include <cstddef>
#include <limits>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"

namespace sangam {

// Counts who has how many calls, and bounds it. For calls that hold something for as long as their
// client likes, a thread for instance. Thread-safe.
class CallPlaces {
 public:
  // Without bounds.
  CallPlaces() = default;
  // `most`: of all; `most_of_one`: of one holder.
  CallPlaces(size_t most, size_t most_of_one) : most_(most), most_of_one_(most_of_one) {}

  // A place, for as long as this lives.
  class Place {
   public:
    // `places` must outlive the place. Where there is no place, none is taken.
    Place(CallPlaces* places, std::string holder);
    ~Place();
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

    bool taken() const { return taken_; }

   private:
    CallPlaces& places_;
    const std::string holder_;
    bool taken_ = false;
  };

  // Places that the holder has.
  size_t Of(const std::string& holder) const;
  size_t most() const { return most_; }
  size_t most_of_one() const { return most_of_one_; }

 private:
  const size_t most_ = std::numeric_limits<size_t>::max();
  const size_t most_of_one_ = std::numeric_limits<size_t>::max();
  mutable Mutex mutex_;
  size_t taken_ ABSL_GUARDED_BY(mutex_) = 0;
  // Holders without places are not here.
  std::map<std::string, size_t> holders_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sangam

#endif  // SANGAM_COMMON_RPC_CALL_PLACES_H_
