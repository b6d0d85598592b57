package storage

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"
)

func TestOutcomeOf(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want Outcome
	}{
		"written":            {nil, Written},
		"there is one":       {storage.NewKeyExistsError("k", 0), Dropped},
		"there is none":      {storage.NewKeyNotFoundError("k", 0), Dropped},
		"a conflict":         {storage.NewResourceVersionConflictsError("k", 0), Dropped},
		"refused":            {apierrors.NewForbidden(schema.GroupResource{}, "n", errors.New("no")), Dropped},
		"wrapped":            {fmt.Errorf("writing: %w", storage.NewKeyExistsError("k", 0)), Dropped},
		"no answer":          {context.DeadlineExceeded, Unknown},
		"connection refused": {errors.New("transport is closing"), Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			if got := outcomeOf(tc.err); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

func TestNamespaceOf(t *testing.T) {
	s := &Space{resourcePrefix: "/pods/"}
	got := map[string]string{}
	for _, key := range []string{"/pods/ns/name", "/pods/name"} {
		got[key] = s.namespaceOf(key)
	}
	if diff := cmp.Diff(map[string]string{"/pods/ns/name": "ns", "/pods/name": ""}, got); diff != "" {
		t.Error(diff)
	}
}
