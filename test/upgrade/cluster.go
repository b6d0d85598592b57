package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/harness"
)

//go:embed objects.yaml
var manifest []byte

var tenants = schema.GroupVersionResource{Version: "v1", Resource: "tenants"}

const (
	timeout  = 3 * time.Minute
	interval = time.Second
)

// cluster is a Tenantry with a client for each space.
type cluster struct {
	spaces map[string]*space
}

// space is how one space is used, by an administrator of the system.
type space struct {
	discovery discovery.DiscoveryInterface
	dynamic   dynamic.Interface
	mapper    *restmapper.DeferredDiscoveryRESTMapper
}

func connect(config *rest.Config) (*cluster, error) {
	config.WarningHandler = rest.NoWarnings{} // of deprecated resources
	c := &cluster{spaces: map[string]*space{}}
	for _, name := range spaces {
		in := config
		if name != "" {
			in = harness.InSpace(config, name)
		}
		client, err := discovery.NewDiscoveryClientForConfig(in)
		if err != nil {
			return nil, err
		}
		objects, err := dynamic.NewForConfig(in)
		if err != nil {
			return nil, err
		}
		c.spaces[name] = &space{client, objects, restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client))}
	}
	return c, nil
}

// write creates the tenants, and the objects in every space.
func (c *cluster) write(ctx context.Context) error {
	for _, name := range spaces[1:] {
		object := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Tenant", "metadata": map[string]any{"name": name, "labels": map[string]any{"tier": "gold"}},
			"spec": map[string]any{"quota": map[string]any{"pods": "50", "services": "20"}},
		}}
		if _, err := c.spaces[""].dynamic.Resource(tenants).Create(ctx, object, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating tenant %q: %w", name, err)
		}
	}
	for _, name := range spaces {
		if err := eachObject(func(obj *unstructured.Unstructured) error { return c.spaces[name].create(ctx, obj) }); err != nil {
			return fmt.Errorf("in the space %q: %w", name, err)
		}
	}
	return c.publish(ctx)
}

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

const policy = "published"

// publish creates an object that is copied to every space, and waits until it is.
func (c *cluster) publish(ctx context.Context) error {
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": policy, "annotations": map[string]any{tenant.PublishedAnnotation: tenant.PublishedTrue}},
	}}
	if err := c.spaces[""].create(ctx, object); err != nil {
		return fmt.Errorf("publishing: %w", err)
	}
	return c.awaitCopies(ctx, true)
}

// awaitCopies waits until every space has a copy, or none.
func (c *cluster) awaitCopies(ctx context.Context, want bool) error {
	for _, name := range spaces[1:] {
		if err := wait.PollUntilContextTimeout(ctx, interval, timeout, true, func(ctx context.Context) (bool, error) {
			_, err := c.spaces[name].configMaps().Get(ctx, policy, metav1.GetOptions{})
			return (err == nil) == want && (err == nil || apierrors.IsNotFound(err)), nil
		}); err != nil {
			return fmt.Errorf("waiting for the copy in the space %q, which there is to be: %t: %w", name, want, err)
		}
	}
	return nil
}

// unpublish checks that copies are known for what they are: nobody changes them, they
// follow what they are copies of, and they go with it.
func (c *cluster) unpublish(ctx context.Context) error {
	patch := []byte(`{"data": {"changed": "after"}}`)
	for _, name := range spaces[1:] {
		if _, err := c.spaces[name].configMaps().Patch(ctx, policy, types.MergePatchType, patch, metav1.PatchOptions{}); !apierrors.IsForbidden(err) {
			return fmt.Errorf("a copy in the space %q can be changed: %w", name, err)
		}
	}
	if _, err := c.spaces[""].configMaps().Patch(ctx, policy, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return err
	}
	for _, name := range spaces[1:] {
		if err := wait.PollUntilContextTimeout(ctx, interval, timeout, true, func(ctx context.Context) (bool, error) {
			found, err := c.spaces[name].configMaps().Get(ctx, policy, metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			changed, _, err := unstructured.NestedString(found.Object, "data", "changed")
			return changed == "after", err
		}); err != nil {
			return fmt.Errorf("waiting for the change in the space %q: %w", name, err)
		}
	}
	if err := c.spaces[""].configMaps().Delete(ctx, policy, metav1.DeleteOptions{}); err != nil {
		return err
	}
	return c.awaitCopies(ctx, false)
}

func (s *space) configMaps() dynamic.ResourceInterface {
	return s.dynamic.Resource(configMaps).Namespace(metav1.NamespaceDefault)
}

func eachObject(visit func(*unstructured.Unstructured) error) error {
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096)
	for {
		obj := &unstructured.Unstructured{}
		if err := documents.Decode(obj); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := visit(obj); err != nil {
			return fmt.Errorf("%s %q: %w", obj.GetKind(), obj.GetName(), err)
		}
	}
}

// create tries again until the space, and the kind, are there.
func (s *space) create(ctx context.Context, obj *unstructured.Unstructured) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, interval, timeout, true, func(ctx context.Context) (bool, error) {
		var client dynamic.ResourceInterface
		if client, last = s.resource(obj); last == nil {
			_, last = client.Create(ctx, obj, metav1.CreateOptions{})
		}
		if apierrors.IsInvalid(last) || apierrors.IsBadRequest(last) {
			return false, last
		}
		return last == nil || apierrors.IsAlreadyExists(last), nil
	})
	if last != nil && !apierrors.IsAlreadyExists(last) {
		return last
	}
	return err
}

func (s *space) resource(obj *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := obj.GroupVersionKind()
	mapping, err := s.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		s.mapper.Reset()
		return nil, err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		return s.dynamic.Resource(mapping.Resource).Namespace(metav1.NamespaceDefault), nil
	}
	return s.dynamic.Resource(mapping.Resource), nil
}

// settled returns what there is when nobody writes any more.
func (c *cluster) settled(ctx context.Context) (store, error) {
	resources, err := c.resources()
	if err != nil {
		return nil, err
	}
	var last store
	err = wait.PollUntilContextTimeout(ctx, 5*interval, timeout, true, func(ctx context.Context) (bool, error) {
		next, err := c.read(ctx, resources)
		if err != nil {
			return false, err
		}
		settled := last != nil && last.without(expires).same(next.without(expires))
		last = next
		return settled, nil
	})
	return last, err
}

// resources are those that can be listed in some space, in their preferred versions.
func (c *cluster) resources() ([]schema.GroupVersionResource, error) {
	var resources []schema.GroupVersionResource
	for _, s := range c.spaces {
		lists, err := s.discovery.ServerPreferredResources()
		if err != nil {
			return nil, err
		}
		for _, list := range lists {
			gv, err := schema.ParseGroupVersion(list.GroupVersion)
			if err != nil {
				return nil, err
			}
			for _, r := range list.APIResources {
				resource := gv.WithResource(r.Name)
				if slices.Contains(r.Verbs, "list") && !strings.Contains(r.Name, "/") && !slices.Contains(resources, resource) {
					resources = append(resources, resource)
				}
			}
		}
	}
	return resources, nil
}

// read returns all objects of resources in all spaces that have them.
func (c *cluster) read(ctx context.Context, resources []schema.GroupVersionResource) (store, error) {
	found := store{}
	for _, resource := range resources {
		found[resource] = map[where]*unstructured.Unstructured{}
		for name, s := range c.spaces {
			list, err := s.dynamic.Resource(resource).List(ctx, metav1.ListOptions{})
			if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) || apierrors.IsForbidden(err) {
				continue // what was found by the one version, and is not by the other, is missing
			}
			if err != nil {
				return nil, fmt.Errorf("listing %s in the space %q: %w", resource.GroupResource(), name, err)
			}
			for i := range list.Items {
				obj := &list.Items[i]
				delete(obj.Object, "apiVersion") // that of the list
				found[resource][where{name, obj.GetNamespace(), obj.GetName()}] = obj
			}
		}
	}
	return found, nil
}

// touch writes each object of the manifest in every space.
func (c *cluster) touch(ctx context.Context) error {
	patch := []byte(`{"metadata": {"annotations": {"touched": "after"}, "finalizers": null}}`)
	for _, name := range spaces {
		if err := eachObject(func(obj *unstructured.Unstructured) error {
			client, err := c.spaces[name].resource(obj)
			if err != nil {
				return err
			}
			_, err = client.Patch(ctx, obj.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
			return err
		}); err != nil {
			return fmt.Errorf("writing in the space %q: %w", name, err)
		}
	}
	return nil
}

// deleteTenants waits until nothing is left of them.
func (c *cluster) deleteTenants(ctx context.Context) error {
	client := c.spaces[""].dynamic.Resource(tenants)
	for _, name := range spaces[1:] {
		if err := client.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			return fmt.Errorf("deleting tenant %q: %w", name, err)
		}
	}
	for _, name := range spaces[1:] {
		if err := wait.PollUntilContextTimeout(ctx, interval, timeout, true, func(ctx context.Context) (bool, error) {
			_, err := client.Get(ctx, name, metav1.GetOptions{})
			return apierrors.IsNotFound(err), nil
		}); err != nil {
			return fmt.Errorf("waiting for the end of tenant %q: %w", name, err)
		}
	}
	return nil
}
