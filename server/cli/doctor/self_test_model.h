#ifndef QUIRE_SERVER_CLI_DOCTOR_SELF_TEST_MODEL_H_
#define QUIRE_SERVER_CLI_DOCTOR_SELF_TEST_MODEL_H_

#include <cstdint>
#include <string>

namespace quire::cli {

inline constexpr uint32_t kSelfTestSeed = 1;

// The bytes of a GGUF file: a Llama of two layers, 64 tokens and no tokenizer. Weights follow from
// a formula of whole numbers and are exact in bf16, so that every machine, and
// tests/golden/make/make_selftest.py, has the same ones. Other seeds give other models.
std::string SelfTestModel(uint32_t seed);

}  // namespace quire::cli

#endif  // QUIRE_SERVER_CLI_DOCTOR_SELF_TEST_MODEL_H_
