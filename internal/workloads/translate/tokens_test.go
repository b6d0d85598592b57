package translate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/tenantry/tenantry/internal/workloads/names"
)

// TestTokens checks that a host's pod reads the tokens that the space's has, each at its path, and asks the host for
// none.
func TestTokens(t *testing.T) {
	pod := plain()
	tokens(corev1.ServiceAccountTokenProjection{Path: "a"}, corev1.ServiceAccountTokenProjection{Path: "b", Audience: "vault", ExpirationSeconds: new(int64(600)), User: new(int64(7))})(pod)
	tokens(corev1.ServiceAccountTokenProjection{Path: "c", ExpirationSeconds: new(int64(3600))}, corev1.ServiceAccountTokenProjection{Path: "d", Audience: "vault"})(pod)
	volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: names.Tokens("p")}})(pod) // which is not that
	want := []Token{{"token-0", "", 3600}, {"token-1", "vault", 600}, {"token-2", "vault", 3600}}
	if diff := cmp.Diff(want, TokensOf(&pod.Spec)); diff != "" {
		t.Errorf("tokens (-want +got):\n%s", diff)
	}
	host := Options{}.Pod(pod, home)
	if left := TokensOf(&host.Spec); len(left) > 0 {
		t.Errorf("the host is asked for %v", left)
	}
	got := map[string]string{}
	for _, v := range host.Spec.Volumes[:2] {
		for _, source := range v.Projected.Sources {
			if source.Secret.Name != names.Tokens("p") {
				t.Errorf("it reads %q", source.Secret.Name)
			}
			item := source.Secret.Items[0]
			got[item.Path] = item.Key
			if (item.User != nil) != (item.Path == "b") {
				t.Errorf("%q is of the user %v", item.Path, item.User)
			}
		}
	}
	if diff := cmp.Diff(map[string]string{"a": "token-0", "b": "token-1", "c": "token-0", "d": "token-2"}, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if name := host.Spec.Volumes[2].Secret.SecretName; name == names.Tokens("p") {
		t.Error("a Secret of the space is taken for the tokens")
	}
}
