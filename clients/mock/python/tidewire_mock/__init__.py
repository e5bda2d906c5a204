"""A mock for tests: started on a free port, told what to answer, asked what it was called with."""

from .admin import MockError, VerifyError
from .mock import Call, Mock, NearMiss, Session
from .rule import Rule

__all__ = ["Call", "Mock", "MockError", "NearMiss", "Rule", "Session", "VerifyError"]
