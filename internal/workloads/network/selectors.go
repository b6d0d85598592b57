package network

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenantry/tenantry/internal/workloads/names"
)

// LabelPrefix begins the labels of a host's namespace that are those of the space's.
const LabelPrefix = names.Prefix + "l-"

// absentPrefix begins labels that nothing has, in the place of the platform's: nothing in a space has those.
const absentPrefix = names.Prefix + "absent-"

// maxLabels is how many labels of a space's namespace its host's has. Those beyond, in the order of their keys, are
// not there for selectors of policies.
const maxLabels = 128

// NamespaceLabels returns the labels that a host's namespace has for the selectors of policies in its space. Their keys
// are hashed: as they are, they would tell the host what to do, and may be as long as keys can be.
func NamespaceLabels(of map[string]string) map[string]string {
	on := map[string]string{}
	if name, ok := of[corev1.LabelMetadataName]; ok {
		on[hostKey(corev1.LabelMetadataName)] = name
	}
	for _, key := range slices.Sorted(maps.Keys(of)) {
		if len(on) == maxLabels {
			break
		}
		on[hostKey(key)] = of[key]
	}
	return on
}

func hostKey(key string) string { return LabelPrefix + names.Digest(key) }

// namespaceSelector returns a selector of the host's namespaces for one of a space's: of the tenant alone. Whatever
// the tenant's says, its keys are not that of the label that is added.
func namespaceSelector(of *metav1.LabelSelector, home names.Namespace) *metav1.LabelSelector {
	s := withKeys(of, hostKey)
	if s.MatchLabels == nil {
		s.MatchLabels = map[string]string{}
	}
	maps.Copy(s.MatchLabels, home.Labels())
	return s
}

// PodSelector returns a selector of the host's pods for one of a space's. Labels of the platform are on the host's pods
// alone.
func PodSelector(of *metav1.LabelSelector) *metav1.LabelSelector {
	return withKeys(of, func(key string) string {
		if strings.HasPrefix(key, names.Prefix) {
			return absentPrefix + names.Digest(key)
		}
		return key
	})
}

// withKeys returns a copy of a selector with other keys.
func withKeys(of *metav1.LabelSelector, change func(string) string) *metav1.LabelSelector {
	s := &metav1.LabelSelector{}
	if len(of.MatchLabels) > 0 {
		s.MatchLabels = make(map[string]string, len(of.MatchLabels))
		for key, value := range of.MatchLabels {
			s.MatchLabels[change(key)] = value
		}
	}
	for i := range of.MatchExpressions {
		r := of.MatchExpressions[i].DeepCopy()
		r.Key = change(r.Key)
		s.MatchExpressions = append(s.MatchExpressions, *r)
	}
	return s
}
