package spaceapi

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestUse(t *testing.T) {
	for use, usable := range map[[3]string]bool{
		{"get", "pods", ""}:                                                true,
		{"get", "pods", "log"}:                                             true,
		{"get", "pods", "proxy"}:                                           false,
		{"create", "services", "proxy"}:                                    false,
		{"get", "nodes", ""}:                                               false,
		{"create", "nodes", ""}:                                            false,
		{"update", "nodes", "status"}:                                      false,
		{"*", "nodes", ""}:                                                 false,
		{"get", "nodes.example.com", ""}:                                   true,
		{"list", "nodes.metrics.k8s.io", ""}:                               false,
		{"list", "pods.metrics.k8s.io", ""}:                                true,
		{"get", "tenants", ""}:                                             false,
		{"watch", "tenants.tenantry.io", ""}:                               false,
		{"get", "publishedobjects.tenantry.io", ""}:                        false,
		{"get", "keystonesyncs.tenantry.io", ""}:                           false,
		{"get", "componentstatuses", ""}:                                   false,
		{"create", "tenantaccesspolicies.tenantry.io", ""}:                 true,
		{"list", "csinodes.storage.k8s.io", ""}:                            true,
		{"create", "csinodes.storage.k8s.io", ""}:                          false,
		{"create", "devicetaintrules.resource.k8s.io", ""}:                 false,
		{"list", "storageversionmigrations.storagemigration.k8s.io", ""}:   true,
		{"create", "storageversionmigrations.storagemigration.k8s.io", ""}: false,
		{"delete", "volumeattachments.storage.k8s.io", ""}:                 false,
		{"watch", "apiservices.apiregistration.k8s.io", ""}:                true,
		{"patch", "apiservices.apiregistration.k8s.io", ""}:                false,
		{"get", "apiservices.apiregistration.k8s.io", "status"}:            false,
		{"delete", "apiservices.apiregistration.k8s.io", ""}:               false,
		{"delete", "nodes", ""}:                                            false,
		{"create", "daemonsets.apps", ""}:                                  true,
	} {
		if err := Use(use[0], schema.ParseGroupResource(use[1]), use[2]); (err == nil) != usable {
			t.Errorf("%v: %v, want usable %v", use, err, usable)
		}
	}
}

// TestRequest checks that what admission refuses, naming its policy, gets there.
func TestRequest(t *testing.T) {
	for _, resource := range []string{"nodes", "csinodes.storage.k8s.io"} {
		if err := Request("create", schema.ParseGroupResource(resource), ""); err != nil {
			t.Errorf("%s: %v", resource, err)
		}
		if Creation(schema.ParseGroupResource(resource)) == nil {
			t.Errorf("%s can be created", resource)
		}
	}
}
