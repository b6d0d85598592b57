package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// TestErrors checks which errors of controllers are logged, and how much of them.
func TestErrors(t *testing.T) {
	handlers := slices.Clone(utilruntime.ErrorHandlers)
	defer func() { utilruntime.ErrorHandlers = handlers }()
	var logged []error
	utilruntime.ErrorHandlers = []utilruntime.ErrorHandler{func(_ context.Context, err error, _ string, _ ...any) { logged = append(logged, err) }}
	handleErrors(boundError)
	handleErrors(dropRetry)
	short, long := errors.New("short"), errors.New(strings.Repeat("é", maxError))
	for _, err := range []error{nil, short, long, errors.New("the cache is not as new as written version 5")} {
		utilruntime.HandleErrorWithContext(t.Context(), err, "syncing")
	}
	if len(logged) != 3 || logged[0] != nil || !errors.Is(logged[1], short) {
		t.Fatalf("logged %v", logged)
	}
	if text := logged[2].Error(); len(text) > maxError+40 || !strings.HasSuffix(text, "é... (8192 bytes)") {
		t.Errorf("logged %d bytes: ...%q", len(text), text[max(0, len(text)-40):])
	}
}
