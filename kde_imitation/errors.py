"""The errors a user may meet. Each message is a sentence: what was wrong, where, what to do."""


class KdeImitationError(Exception):
    """Base of all errors that this package raises on purpose."""


class BadInput(KdeImitationError, ValueError):
    """An argument, a file or a message cannot be used as it is."""


class Unreachable(KdeImitationError):
    """No posture of the arm inside its limits meets the request."""


class MissingExtra(KdeImitationError, ImportError):
    """A feature needs a package that is not installed."""
