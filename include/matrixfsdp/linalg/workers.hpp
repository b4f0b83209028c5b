#pragma once

#include <cstdint>
#include <memory>

/// Many matrices at once on the host.
namespace matrixfsdp::linalg {

/// Threads that work side by side for one caller, who is the first of them: on whole matrices (run), and on pieces of
/// one matrix's products, with which those help that have nothing else to do (share). While run() lasts, every product
/// of this process uses one thread: what a matrix gets from several are its pieces, and those are cut by its shape
/// alone. So no bit of a result depends on how many workers there are, or on which is faster. A worker also does the
/// work of the kernels that it starts; Kokkos' own threads have nothing to do then. Not for two callers at once.
class Workers {
 public:
  /// Starts `count` - 1 threads, which sleep until they are needed; one worker starts none. Where kernels run on a
  /// device there is one worker whatever `count` is: matrices of one shape are batched there (batches_products). Throws
  /// ContractError for count < 1, and Error where the system refuses a thread.
  explicit Workers(int count = 1);
  /// Ends the threads; nothing may run.
  ~Workers();
  Workers(Workers&&) noexcept;             ///< takes the threads
  Workers& operator=(Workers&&) noexcept;  ///< the same; nothing may run

  /// Workers that `asked` gives: that many, but one on a device.
  static int usable(int asked);
  /// Of this.
  [[nodiscard]] int count() const;

  /// body(worker) on each worker, 0 <= worker < count(), 0 on the calling thread; complete when it returns. A worker
  /// whose part has ended helps with what others share. An exception is thrown on when all parts have ended: of several
  /// that of the first worker. Throws ContractError from inside of a part.
  template <class Body>
  void run(const Body& body) {
    run_call(call_of(body));
  }

  /// body(piece) for 0 <= piece < pieces, in no order and on several threads at once where some are idle; complete when
  /// it returns. From inside of a part of run(); elsewhere one after the other on the calling thread. The first
  /// exception is thrown on; pieces that have not begun are left out then.
  template <class Body>
  void share(std::int64_t pieces, const Body& body) {
    share_call(pieces, call_of(body));
  }

 private:
  /// A body that the caller keeps.
  struct Call {
    const void* body = nullptr;
    void (*invoke)(const void* body, std::int64_t index) = nullptr;

    void operator()(std::int64_t index) const { invoke(body, index); }
  };
  template <class Body>
  static Call call_of(const Body& body) {
    return {&body, [](const void* kept, std::int64_t index) { (*static_cast<const Body*>(kept))(index); }};
  }
  void run_call(const Call& call);
  void share_call(std::int64_t pieces, const Call& call);

  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace matrixfsdp::linalg
