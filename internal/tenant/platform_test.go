package tenant

import (
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
)

func TestByPlatform(t *testing.T) {
	if ByPlatform(t.Context()) {
		t.Error("nobody is of the platform")
	}
	for n, want := range map[Name]bool{System: true, "acme": false, "": false} {
		ctx := request.WithUser(t.Context(), &user.DefaultInfo{Name: "jane", Extra: map[string][]string{UserExtraKey: {string(n)}}})
		if got := ByPlatform(ctx); got != want {
			t.Errorf("a user of %q: got %v", n, got)
		}
	}
}
