#ifndef QUIRE_TESTS_TESTING_SHA256_H_
#define QUIRE_TESTS_TESTING_SHA256_H_

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

namespace quire {

// FIPS 180-4, for comparing with digests in golden data. Lower-case hexadecimal.
inline std::string Sha256(const void* data, size_t num_bytes) {
  // The first 32 bits of the fractional parts of roots of the first primes.
  uint32_t constants[64];
  uint32_t state[8];
  for (uint32_t prime = 2, count = 0; count < 64; ++prime) {
    bool is_prime = true;
    for (uint32_t d = 2; d * d <= prime; ++d) is_prime = is_prime && prime % d != 0;
    if (!is_prime) continue;
    const auto fraction = [](long double root) {
      return static_cast<uint32_t>((root - std::floor(root)) * 4294967296.0L);
    };
    if (count < 8) state[count] = fraction(std::sqrt(static_cast<long double>(prime)));
    constants[count++] = fraction(std::cbrt(static_cast<long double>(prime)));
  }

  std::string message(static_cast<const char*>(data), num_bytes);
  message.push_back('\x80');
  while (message.size() % 64 != 56) message.push_back('\0');
  for (int shift = 56; shift >= 0; shift -= 8) {
    message.push_back(static_cast<char>(uint64_t{num_bytes} * 8 >> shift));
  }
  for (size_t at = 0; at < message.size(); at += 64) {
    uint32_t w[64];
    for (int i = 0; i < 16; ++i) {
      w[i] = 0;
      for (int b = 0; b < 4; ++b) {
        w[i] = w[i] << 8 | static_cast<unsigned char>(message[at + 4 * i + b]);
      }
    }
    for (int i = 16; i < 64; ++i) {
      const uint32_t a = w[i - 15], b = w[i - 2];
      w[i] = w[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) + w[i - 7] +
             (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
    }
    uint32_t s[8];
    for (int i = 0; i < 8; ++i) s[i] = state[i];
    for (int i = 0; i < 64; ++i) {
      const uint32_t t1 = s[7] + (std::rotr(s[4], 6) ^ std::rotr(s[4], 11) ^ std::rotr(s[4], 25)) +
                          ((s[4] & s[5]) ^ (~s[4] & s[6])) + constants[i] + w[i];
      const uint32_t t2 = (std::rotr(s[0], 2) ^ std::rotr(s[0], 13) ^ std::rotr(s[0], 22)) +
                          ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
      for (int j = 7; j > 0; --j) s[j] = s[j - 1];
      s[4] += t1;
      s[0] = t1 + t2;
    }
    for (int i = 0; i < 8; ++i) state[i] += s[i];
  }
  std::string digest;
  for (const uint32_t word : state) {
    char text[9];
    std::snprintf(text, sizeof(text), "%08x", word);
    digest += text;
  }
  return digest;
}

}  // namespace quire

#endif  // QUIRE_TESTS_TESTING_SHA256_H_
