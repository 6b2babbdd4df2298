#include "common/rpc/call_places.h"

#include <cstddef>
#include <string>
#include <utility>

#include "common/base/mutex.h"

namespace sangam {

CallPlaces::Place::Place(CallPlaces* places, std::string holder)
    : places_(*places), holder_(std::move(holder)) {
  MutexLock lock(&places_.mutex_);
  if (places_.taken_ >= places_.most_ || places_.most_of_one_ == 0) return;
  const auto held = places_.holders_.try_emplace(holder_, 0).first;
  if (held->second >= places_.most_of_one_) return;
  ++held->second;
  ++places_.taken_;
  taken_ = true;
}

CallPlaces::Place::~Place() {
  if (!taken_) return;
  MutexLock lock(&places_.mutex_);
  --places_.taken_;
  const auto held = places_.holders_.find(holder_);
  if (--held->second == 0) places_.holders_.erase(held);
}

size_t CallPlaces::Of(const std::string& holder) const {
  MutexLock lock(&mutex_);
  const auto held = holders_.find(holder);
  return held == holders_.end() ? 0 : held->second;
}

}  // namespace sangam
