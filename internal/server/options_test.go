package server

import (
	"strings"
	"testing"
)

func TestPublishableResources(t *testing.T) {
	options := NewOptions()
	options.Publishable = append(options.Publishable, "foos")
	_, err := options.Complete(t.Context())
	if err == nil || !strings.Contains(err.Error(), `--publishable-resources: "foos" is not built in`) {
		t.Errorf("got error %v, want one that names the flag and the resource", err)
	}
}
