//! The protocols.

use std::fmt;

/// A protocol of model servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    /// KServe v2 over gRPC.
    KserveGrpc,
    /// KServe v2 over REST.
    KserveRest,
    /// TensorFlow Serving over gRPC.
    TfsGrpc,
    /// TensorFlow Serving over REST.
    TfsRest,
}

impl Api {
    /// Every protocol.
    pub const ALL: [Self; 4] = [
        Self::KserveGrpc,
        Self::KserveRest,
        Self::TfsGrpc,
        Self::TfsRest,
    ];

    /// Returns the port that servers usually have it on.
    pub const fn port(self) -> u16 {
        if self.is_grpc() { 9000 } else { 8000 }
    }

    /// Returns whether it goes over gRPC.
    pub const fn is_grpc(self) -> bool {
        matches!(self, Self::KserveGrpc | Self::TfsGrpc)
    }

    /// Returns whether it is one of TensorFlow Serving's; their requests have neither id nor
    /// parameters.
    pub const fn is_tfs(self) -> bool {
        matches!(self, Self::TfsGrpc | Self::TfsRest)
    }
}

impl fmt::Display for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::KserveGrpc => "kserve-grpc",
            Self::KserveRest => "kserve-rest",
            Self::TfsGrpc => "tfs-grpc",
            Self::TfsRest => "tfs-rest",
        })
    }
}
