package accesspolicy

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestSeal(t *testing.T) {
	const uid, later types.UID = "0b0e2f4c-52a5-4c8e-9a0a-1d7a0c1e2f3a", "f2d0c3b1-aaaa-4c8e-9a0a-1d7a0c1e2f3a"
	seal, nobody := newSeal(uid), newSeal("")
	for name, tc := range map[string]struct {
		seal string
		uid  types.UID
		want bool
	}{
		"the tenant":                  {seal, uid, true},
		"a later one of that name":    {seal, later, false},
		"one that is gone":            {seal, "", false},
		"nobody was there":            {nobody, uid, false},
		"nobody was and is there":     {nobody, "", false},
		"no seal":                     {"", uid, false},
		"not base64":                  {"!", uid, false},
		"too short":                   {seal[:20], uid, false},
		"too short, and nobody there": {seal[:20], "", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ParseSeal(tc.seal).Matches(tc.uid); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
	if len(seal) != len(nobody) {
		t.Errorf("seals have %d and %d characters: they tell whether there is a tenant", len(seal), len(nobody))
	}
	if newSeal(uid) == seal {
		t.Error("two seals of a tenant are equal: compared with those of another name they tell whether there is one")
	}
}
