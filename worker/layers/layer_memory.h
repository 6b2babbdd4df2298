#ifndef SANGAM_WORKER_LAYERS_LAYER_MEMORY_H_
#define SANGAM_WORKER_LAYERS_LAYER_MEMORY_H_

#include <cstdint>
#include <vector>

#include "common/model/layer_demand.h"
#include "worker/layers/layer.h"

namespace sangam {

// Cuts one allocation into pieces for samples, each of which begins at a cache line. Without memory
// it only counts.
class PieceCutter {
 public:
  PieceCutter(uint64_t max_rows, float* memory) : max_rows_(max_rows), memory_(memory) {}

  // max_rows * size floats; nullptr when counting or when nothing is asked for.
  float* Cut(int64_t size);

  // Floats cut so far.
  int64_t total() const { return total_; }
  // False: the total has no number.
  bool fits() const { return fits_; }

 private:
  uint64_t max_rows_;
  float* memory_;
  int64_t total_ = 0;
  bool fits_ = true;
};

// Gives the layers, and those within them, what they want of every micro-batch in flight.
void CutStates(const std::vector<LayerDemand>& demands, PieceCutter* cutter,
               std::vector<LayerState>* layers);
// What they want while a pass goes back.
void CutScratch(const std::vector<LayerDemand>& demands, PieceCutter* cutter,
                std::vector<LayerState>* layers);

}  // namespace sangam

#endif  // SANGAM_WORKER_LAYERS_LAYER_MEMORY_H_
