package server

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/server/admission/published"
	"github.com/tenantry/tenantry/internal/tenant"
)

// publishedIn returns what is published in a namespace of the system space, by the reports
// about it: there is one before there are copies.
func (s *stores) publishedIn(ctx context.Context, namespace string) ([]published.Original, error) {
	own := request.WithNamespace(tenant.WithSpace(request.WithUser(ctx, nil), tenant.System), metav1.NamespaceNone)
	list, err := s.reports.List(own, &internalversion.ListOptions{})
	if err != nil {
		return nil, err
	}
	var originals []published.Original
	for _, report := range list.(*v1alpha1.PublishedObjectList).Items {
		if about := report.Object; about.Namespace == namespace {
			originals = append(originals, published.Original{
				Resource: schema.GroupResource{Group: about.Group, Resource: about.Resource}, Namespace: namespace, Name: about.Name,
			})
		}
	}
	return originals, nil
}
