package discovery

import (
	"net/http"
	"slices"
	"sync"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"
)

// SharedGroups are the API groups that every space has.
type SharedGroups struct {
	// All is the aggregated discovery of the system space.
	All http.Handler
	// IsBuiltin reports whether an API group is built in and served in spaces.
	IsBuiltin func(group string) bool

	once sync.Once
	list []apidiscoveryv2.APIGroupDiscovery
}

// List returns the groups. They are read when they are first asked for: the server
// installs all API groups before it serves.
func (s *SharedGroups) List() []apidiscoveryv2.APIGroupDiscovery {
	s.once.Do(func() {
		groups, err := readGroups(s.All, "/apis")
		if err != nil {
			klog.ErrorS(err, "Reading the API groups of all spaces")
		}
		for _, group := range groups {
			if group.Name == apiregistration.GroupName || group.Name == apiextensions.GroupName || s.IsBuiltin(group.Name) {
				s.list = append(s.list, usableIn(group))
			}
		}
	})
	return s.list
}

// Listable returns the built-in resources that can be listed in the system space. core serves the core group.
func (s *SharedGroups) Listable(core http.Handler) ([]schema.GroupResource, error) {
	groups, err := readGroups(s.All, "/apis")
	if err != nil {
		return nil, err
	}
	legacy, err := readGroups(core, "/api")
	if err != nil {
		return nil, err
	}
	var listable []schema.GroupResource
	for _, group := range slices.Concat(legacy, groups) {
		if group.Name != apiregistration.GroupName && group.Name != apiextensions.GroupName && group.Name != corev1.GroupName && !s.IsBuiltin(group.Name) {
			continue
		}
		for _, version := range group.Versions {
			for _, resource := range version.Resources {
				of := schema.GroupResource{Group: group.Name, Resource: resource.Resource}
				if slices.Contains(resource.Verbs, "list") && !slices.Contains(listable, of) {
					listable = append(listable, of)
				}
			}
		}
	}
	return listable, nil
}
