//! Who leads (Lease, epoch) and what counts (fence, permit, sealed objects).
