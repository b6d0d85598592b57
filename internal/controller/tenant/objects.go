package tenant

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	"github.com/tenantry/tenantry/internal/tenant"
)

// pageSize is the number of objects read by one request.
const pageSize = 500

// StoredObject is what a deletion needs to know of an object of any kind.
type StoredObject struct {
	Resource        schema.GroupVersionResource
	Namespace, Name string
	UID             types.UID
	Finalizers      []string
	// Terminating is true if the object has a deletion timestamp.
	Terminating bool
}

// String names the object for messages.
func (o StoredObject) String() string {
	name := o.Name
	if o.Namespace != "" {
		name = o.Namespace + "/" + o.Name
	}
	return fmt.Sprintf("%s %s", o.Resource.GroupResource(), name)
}

// objects returns a client for the metadata of every object in the space of n. It
// shares the connection pool and is garbage after the call.
func (s Spaces) objects(n tenant.Name) (metadata.Interface, error) {
	config, connections := s.Config(n.Scope())
	client, err := metadata.NewForConfigAndClient(metadata.ConfigFor(config), connections)
	return client, wrap(err, "creating the metadata client of tenant %q", n)
}

// ListObjects lists the stored objects of a resource in the space of n, in all
// its namespaces. A resource that is not served has no objects. What the server shows
// in every space without storing it is not among them: a space that is being deleted
// does not show it.
func (s Spaces) ListObjects(ctx context.Context, n tenant.Name, resource schema.GroupResource) ([]StoredObject, error) {
	versions, err := s.servedVersions(ctx, n, resource.Group)
	if err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, err
	}
	client, err := s.objects(n)
	if err != nil {
		return nil, err
	}
	for _, version := range versions {
		listed, err := listObjects(ctx, client, resource.WithVersion(version))
		if apierrors.IsNotFound(err) {
			continue // not in this version
		}
		return listed, wrap(err, "listing %s", resource)
	}
	return nil, nil
}

func listObjects(ctx context.Context, client metadata.Interface, resource schema.GroupVersionResource) ([]StoredObject, error) {
	var objects []StoredObject
	for options := (metav1.ListOptions{Limit: pageSize}); ; {
		page, err := client.Resource(resource).List(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			item := &page.Items[i]
			objects = append(objects, StoredObject{
				Resource: resource, Namespace: item.Namespace, Name: item.Name, UID: item.UID,
				Finalizers: item.Finalizers, Terminating: item.DeletionTimestamp != nil,
			})
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return objects, nil
		}
	}
}

// DeleteObject deletes an object in the space of n.
func (s Spaces) DeleteObject(ctx context.Context, n tenant.Name, object StoredObject) error {
	client, err := s.objects(n)
	if err != nil {
		return err
	}
	options := metav1.DeleteOptions{
		PropagationPolicy: new(metav1.DeletePropagationBackground), Preconditions: metav1.NewUIDPreconditions(string(object.UID)),
	}
	return client.Resource(object.Resource).Namespace(object.Namespace).Delete(ctx, object.Name, options)
}
