package spaceapi

import (
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/metrics/pkg/apis/metrics"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

// nodeMetrics is what kubectl top asks about nodes.
var nodeMetrics = schema.GroupResource{Group: metrics.GroupName, Resource: "nodes"}

// APIServices is the resource apiservices.
var APIServices = schema.GroupResource{Group: apiregistrationv1.GroupName, Resource: "apiservices"}

var (
	errAbsent  = errors.New("it exists in the system space only")
	errNodes   = errors.New("nodes belong to the system space; a space shows none")
	errDevices = errors.New("nodes and their devices belong to the system space")
	errProxy   = errors.New("the API server does not connect to addresses that a tenant chooses; " +
		"publish the Service on the network of its pods instead")
	errAggregation = errors.New("other API servers are aggregated by the platform only, for the system space; " +
		"define own resources with CustomResourceDefinitions")
)

// absent are the resources that exist in the system space only: Tenants, what makes
// them of Keystone, reports about published objects, and the health of the components, for which the server would call
// them at each request.
var absent = []schema.GroupResource{
	{Resource: "tenants"},
	{Resource: "componentstatuses"},
	v1alpha1.GroupVersion.WithResource("tenants").GroupResource(),
	v1alpha1.GroupVersion.WithResource("publishedobjects").GroupResource(),
	v1alpha1.GroupVersion.WithResource("keystonesyncs").GroupResource(),
}

// ofPlatform has the reasons why objects of a resource are created in the system space only.
var ofPlatform = map[schema.GroupResource]error{
	{Resource: "nodes"}: errors.New("nodes belong to the system space"),
	{Group: storagev1.GroupName, Resource: "csinodes"}:          errors.New("nodes belong to the system space"),
	{Group: storagev1.GroupName, Resource: "volumeattachments"}: errors.New("nodes and the volumes attached to them belong to the system space"),
	{Group: resourcev1.GroupName, Resource: "resourceslices"}:   errDevices,
	{Group: resourcev1.GroupName, Resource: "devicetaintrules"}: errDevices,
	// No controller runs them in a space.
	{Group: storagemigrationv1.GroupName, Resource: "storageversionmigrations"}: errors.New("they are not carried out in a space: to store objects in the present version of their definition, write each again (kubectl get RESOURCE -A -o json | kubectl replace -f -), and take the earlier version out of status.storedVersions"),
}

// IsAbsent reports whether a resource exists in the system space only.
func IsAbsent(resource schema.GroupResource) bool { return slices.Contains(absent, resource) }

// Creation returns why objects of a resource are created in the system space only, nil
// if spaces may have them.
func Creation(resource schema.GroupResource) error { return ofPlatform[resource] }

// Request returns why all spaces refuse a request for a resource that they have,
// whoever the user is, nil if they do not. Admission refuses creations, except those of
// APIServices, which do not reach admission.
func Request(verb string, resource schema.GroupResource, subresource string) error {
	switch {
	case resource == APIServices && (subresource != "" || !isRead(verb)):
		return errAggregation
	case resource == nodeMetrics:
		return errNodes
	case resource.Group != corev1.GroupName:
		return nil
	case subresource == "proxy":
		return errProxy
	case resource.Resource == "nodes" && (verb != "create" || subresource != ""):
		return errNodes
	default:
		return nil
	}
}

// Use returns why a verb cannot be used in a space, whatever rights the user has, nil if it
// can.
func Use(verb string, resource schema.GroupResource, subresource string) error {
	if IsAbsent(resource) {
		return errAbsent
	}
	if err := Request(verb, resource, subresource); err != nil {
		return err
	}
	if isRead(verb) {
		return nil
	}
	return ofPlatform[resource]
}

func isRead(verb string) bool { return verb == "get" || verb == "list" || verb == "watch" }
