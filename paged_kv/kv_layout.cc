#include "paged_kv/kv_layout.h"

#include <algorithm>
#include <limits>
#include <map>

#include "kernels/check.h"

namespace quire {
namespace {

// Layers per block that leave the fewest unused over all spans; the larger where equal, because
// fewer groups mean fewer blocks to keep. Never less than half of the rarest span's layers.
int32_t ChooseLayersPerBlock(const std::map<int32_t, std::vector<int32_t>>& layers_of_window) {
  size_t rarest = std::numeric_limits<size_t>::max();
  for (const auto& [window, layers] : layers_of_window) rarest = std::min(rarest, layers.size());
  size_t best = rarest;
  size_t best_unused = std::numeric_limits<size_t>::max();
  for (size_t size = rarest; 2 * size > rarest; --size) {
    size_t unused = 0;
    for (const auto& [window, layers] : layers_of_window) {
      unused += (size - layers.size() % size) % size;
    }
    if (unused < best_unused) {
      best = size;
      best_unused = unused;
    }
  }
  return static_cast<int32_t>(best);
}

}  // namespace

int32_t StoredHeadDim(int32_t head_dim) { return (head_dim + 31) / 32 * 32; }

std::vector<int32_t> KvLayout::GroupWindows() const {
  std::vector<int32_t> windows;
  for (const KvGroup& group : groups) windows.push_back(group.window);
  return windows;
}

KvLayout MakeKvLayout(const KvModel& model, int32_t block_size) {
  QUIRE_CHECK(model.num_layers > 0 && model.num_kv_heads > 0 && model.head_dim > 0,
              "positive sizes");
  QUIRE_CHECK(model.elem_bytes > 0 && block_size > 0, "positive sizes");
  QUIRE_CHECK(model.layer_windows.empty() ||
                  static_cast<int32_t>(model.layer_windows.size()) == model.num_layers,
              "one window per layer");
  std::map<int32_t, std::vector<int32_t>> layers_of_window;  // full attention (0) comes first
  for (int32_t layer = 0; layer < model.num_layers; ++layer) {
    const int32_t window = model.layer_windows.empty() ? 0 : model.layer_windows[layer];
    QUIRE_CHECK(window >= 0, "a window is a number of tokens");
    layers_of_window[window].push_back(layer);
  }

  KvLayout layout;
  layout.block_size = block_size;
  layout.padded_head_dim = StoredHeadDim(model.head_dim);
  layout.layers_per_block = ChooseLayersPerBlock(layers_of_window);
  layout.block_bytes = int64_t{2} * layout.layers_per_block * model.num_kv_heads * block_size *
                       layout.padded_head_dim * model.elem_bytes;
  layout.group_of_layer.resize(model.num_layers);
  layout.index_in_group.resize(model.num_layers);
  for (const auto& [window, layers] : layers_of_window) {
    for (size_t i = 0; i < layers.size(); ++i) {
      const auto index = static_cast<int32_t>(i % layout.layers_per_block);
      if (index == 0) layout.groups.push_back({window, {}});
      layout.groups.back().layers.push_back(layers[i]);
      layout.group_of_layer[layers[i]] = static_cast<int32_t>(layout.groups.size()) - 1;
      layout.index_in_group[layers[i]] = index;
    }
  }
  return layout;
}

}  // namespace quire
