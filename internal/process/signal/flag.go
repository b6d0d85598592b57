package signal

// Flag tells one who waits that something has changed, once for all that has since the last look.
type Flag chan struct{}

// NewFlag returns a flag that is not raised.
func NewFlag() Flag { return make(Flag, 1) }

// Raise says that something has changed.
func (f Flag) Raise() {
	select {
	case f <- struct{}{}:
	default: // it is raised already
	}
}
