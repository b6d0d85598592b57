package statedir

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestExplain(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		full bool
	}{
		"no error":  {},
		"wrapped":   {err: fmt.Errorf("writing: %w", &os.PathError{Op: "write", Path: "/state/.admin.kubeconfig.1", Err: syscall.ENOSPC}), full: true},
		"one share": {err: &os.LinkError{Op: "rename", Err: syscall.EDQUOT}, full: true},
		"told":      {err: errors.New("write db: " + syscall.ENOSPC.Error()), full: true},
		"another":   {err: os.ErrPermission},
	} {
		t.Run(name, func(t *testing.T) {
			got := Explain("/state", tc.err)
			if !tc.full {
				if got != tc.err { //nolint:errorlint // the same one
					t.Errorf("got %v", got)
				}
				return
			}
			if !errors.Is(got, tc.err) || !strings.HasPrefix(got.Error(), "the disk of /state is full: "+tc.err.Error()) {
				t.Errorf("got %v", got)
			}
		})
	}
}
