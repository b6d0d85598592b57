package credential

import (
	"context"
	"fmt"
	"os"

	"golang.org/x/term"
)

// Terminal returns a function that asks for secrets on the terminal, nil if there is none.
func Terminal() func(ctx context.Context, prompt string) (string, error) {
	fd := int(os.Stdin.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return nil
	}
	return func(ctx context.Context, prompt string) (string, error) {
		fmt.Fprint(os.Stderr, prompt)
		defer fmt.Fprintln(os.Stderr)
		type answer struct {
			secret []byte
			err    error
		}
		answers := make(chan answer, 1)
		go func() {
			secret, err := term.ReadPassword(fd)
			answers <- answer{secret, err}
		}()
		select {
		case a := <-answers:
			return string(a.secret), a.err
		case <-ctx.Done():
			_ = term.Restore(fd, before) // or what is typed later is not shown
			return "", ctx.Err()
		}
	}
}
