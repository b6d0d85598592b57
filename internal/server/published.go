package server

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/server/admission/published"
	"github.com/tenantry/tenantry/internal/tenant"
)

// publishedRules are the rules for published objects and their copies, for admission and
// for storage.
func (c *config) publishedRules(opts CompletedOptions, generic *genericapiserver.Config) published.Rules {
	return published.Rules{
		Terminating: func(n tenant.Name) bool { return c.tenants.Terminating(n) },
		Authorizer:  generic.Authorization.Authorizer,
		Shown:       isServiceOfSpaces,
		Published:   c.publishedIn,
		Publishable: opts.publishable,
	}
}

// publishedIn returns what is published in a namespace of the system space, by the reports
// about it: there is one before there are copies.
func (c *config) publishedIn(ctx context.Context, namespace string) ([]published.Original, error) {
	if c.reports == nil {
		return nil, errors.New("the server is starting")
	}
	own := request.WithNamespace(tenant.WithSpace(request.WithUser(ctx, nil), tenant.System), metav1.NamespaceNone)
	list, err := c.reports.List(own, &internalversion.ListOptions{})
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
