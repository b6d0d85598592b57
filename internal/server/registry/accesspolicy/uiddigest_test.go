package accesspolicy

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestUIDDigest(t *testing.T) {
	const uid, later types.UID = "0b0e2f4c-52a5-4c8e-9a0a-1d7a0c1e2f3a", "f2d0c3b1-aaaa-4c8e-9a0a-1d7a0c1e2f3a"
	digest, nobody := newUIDDigest(uid), newUIDDigest("")
	for name, tc := range map[string]struct {
		digest string
		uid    types.UID
		want   bool
	}{
		"the tenant":                  {digest, uid, true},
		"a later one of that name":    {digest, later, false},
		"one that is gone":            {digest, "", false},
		"nobody was there":            {nobody, uid, false},
		"nobody was and is there":     {nobody, "", false},
		"no digest":                   {"", uid, false},
		"not base64":                  {"!", uid, false},
		"too short":                   {digest[:20], uid, false},
		"too short, and nobody there": {digest[:20], "", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ParseUIDDigest(tc.digest).Matches(tc.uid); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
	if len(digest) != len(nobody) {
		t.Errorf("digests have %d and %d characters: they tell whether there is a tenant", len(digest), len(nobody))
	}
	if newUIDDigest(uid) == digest {
		t.Error("two digests of a tenant are equal: compared with those of another name they tell whether there is one")
	}
}
