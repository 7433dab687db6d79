// See Decompress.h.
#include "runtime/io/Decompress.h"

#include <algorithm>
#include <cstring>
#include <vector>
#include <zlib.h>
#include <zstd.h>

namespace mgc {

namespace {

constexpr size_t kPiece = size_t(1) << 20;

using Sink = std::function<Status(std::span<const std::byte> bytes)>;

// Feeds the file to `take` piece by piece.
Status forEachPiece(const FileReader &file, const Sink &take) {
  std::vector<std::byte> piece(kPiece);
  for (int64_t at = 0; at < file.size(); at += std::ssize(piece)) {
    piece.resize(static_cast<size_t>(std::min<int64_t>(int64_t(kPiece), file.size() - at)));
    MGC_TRY(file.read(at, piece));
    MGC_TRY(take(piece));
  }
  return Status::ok();
}

Status cutOff() { return errorf("is cut off, or is not what its first bytes say"); }

void endInflate(z_stream *stream) { inflateEnd(stream); }

// Several members follow one another, as `cat a.gz b.gz` makes them.
Status inflateAll(const FileReader &file, const Sink &put) {
  constexpr int kGzip = 16 + MAX_WBITS;
  z_stream stream = {};
  if (inflateInit2(&stream, kGzip) != Z_OK)
    return errorf("zlib: not enough memory");
  const Owned<z_stream *, endInflate> owner(&stream);
  std::vector<std::byte> out(kPiece);
  bool isWhole = true;
  MGC_TRY(forEachPiece(file, [&](std::span<const std::byte> in) {
    stream.next_in = reinterpret_cast<Bytef *>(const_cast<std::byte *>(in.data()));
    stream.avail_in = static_cast<uInt>(in.size());
    while (stream.avail_in > 0) {
      if (isWhole && inflateReset(&stream) != Z_OK)
        return cutOff();
      stream.next_out = reinterpret_cast<Bytef *>(out.data()), stream.avail_out = static_cast<uInt>(out.size());
      const int found = inflate(&stream, Z_NO_FLUSH);
      if (found != Z_OK && found != Z_STREAM_END && found != Z_BUF_ERROR)
        return cutOff();
      isWhole = found == Z_STREAM_END;
      MGC_TRY(put(std::span(out).first(out.size() - stream.avail_out)));
    }
    return Status::ok();
  }));
  return isWhole ? Status::ok() : cutOff();
}

void freeStream(ZSTD_DStream *stream) { ZSTD_freeDStream(stream); }

Status unzstdAll(const FileReader &file, const Sink &put) {
  const Owned<ZSTD_DStream *, freeStream> stream(ZSTD_createDStream());
  std::vector<std::byte> out(kPiece);
  size_t due = 0; // 0: between frames
  MGC_TRY(forEachPiece(file, [&](std::span<const std::byte> piece) {
    ZSTD_inBuffer in = {piece.data(), piece.size(), 0};
    for (bool isFull = false; in.pos < in.size || isFull;) {
      ZSTD_outBuffer to = {out.data(), out.size(), 0};
      due = ZSTD_decompressStream(stream.get(), &to, &in);
      if (ZSTD_isError(due))
        return errorf("zstd: {}", ZSTD_getErrorName(due));
      MGC_TRY(put(std::span(out).first(to.pos)));
      isFull = to.pos == to.size;
    }
    return Status::ok();
  }));
  return due == 0 ? Status::ok() : cutOff();
}

struct Compression {
  std::string_view begin, program;
  Status (*decompress)(const FileReader &file, const Sink &put); // null: not here
};
constexpr Compression kCompressions[] = {{"\x1f\x8b", "gzip", inflateAll},
                                         {"\x28\xb5\x2f\xfd", "zstd", unzstdAll},
                                         {"\xfd\x37zXZ", "xz", nullptr},
                                         {"BZh", "bzip2", nullptr}};

} // namespace

Result<FileReader> openDecompressed(const std::string &path) {
  MGC_ASSIGN(file, FileReader::open(path));
  std::string begin(static_cast<size_t>(std::min<int64_t>(file.size(), 5)), '\0');
  MGC_TRY(file.read(0, std::as_writable_bytes(std::span(begin))));
  const auto row = std::ranges::find_if(kCompressions, [&](const auto &each) { return begin.starts_with(each.begin); });
  if (row == std::end(kCompressions))
    return file;
  if (!row->decompress)
    return errorf("{}: is compressed, expected text, or gzip or zstd; {} -dc < FILE makes it text", path, row->program);
  MGC_ASSIGN(folder, temporaryFolder().at(path));
  MGC_ASSIGN(out, unnamedFileIn(folder).at(path));
  MGC_TRY(row->decompress(file,
                          [&](std::span<const std::byte> bytes) {
                            const std::string_view text(reinterpret_cast<const char *>(bytes.data()), bytes.size());
                            return appendWhole(out.number(), text) ? Status::ok()
                                                                   : errorf("{}: {}", folder, std::strerror(errno));
                          })
              .at(path));
  return FileReader::adopt(std::move(out), path);
}

} // namespace mgc
