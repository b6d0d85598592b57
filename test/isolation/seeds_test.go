package isolation

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"strconv"

	"k8s.io/client-go/util/cert"
)

// name is that of every seeded object, in every space.
const name = "seed"

const podSpec = `{"containers":[{"name":"c","image":"i"}]}`
const podTemplate = `{"metadata":{"labels":{"a":"b"}},"spec":` + podSpec + `}`
const selector = `"selector":{"matchLabels":{"a":"b"}}`

// seeds holds what an object needs beside its metadata, by resource.group.
// Resources that need nothing more have an empty seed.
var seeds = map[string]string{
	"bindings.":                            refused,
	"configmaps.":                          `"data":{}`,
	"endpoints.":                           ``,
	"events.":                              `"involvedObject":{"namespace":"default"}`,
	"events.events.k8s.io":                 `"eventTime":"2026-01-01T00:00:00.000000Z","type":"Normal","action":"a","reason":"r","reportingController":"example.com/c","reportingInstance":"i","regarding":{"kind":"Pod","name":"p","namespace":"default"}`,
	"limitranges.":                         ``,
	"namespaces.":                          ``,
	"nodes.":                               refused,
	"persistentvolumeclaims.":              `"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}`,
	"persistentvolumes.":                   `"spec":{"accessModes":["ReadWriteOnce"],"capacity":{"storage":"1Gi"},"hostPath":{"path":"/x"}}`,
	"pods.":                                `"spec":` + podSpec,
	"podtemplates.":                        `"template":` + podTemplate,
	"replicationcontrollers.":              `"spec":{"replicas":0,"selector":{"a":"b"},"template":` + podTemplate + `}`,
	"resourcequotas.":                      ``,
	"secrets.":                             ``,
	"serviceaccounts.":                     ``,
	"services.":                            `"spec":{"clusterIP":"None","ports":[{"port":80}]}`,
	"controllerrevisions.apps":             `"revision":1,"data":{"spec":{"template":{"$patch":"replace"}}}`,
	"daemonsets.apps":                      refused,
	"deployments.apps":                     `"spec":{"replicas":0,` + selector + `,"template":` + podTemplate + `}`,
	"replicasets.apps":                     `"spec":{"replicas":0,` + selector + `,"template":` + podTemplate + `}`,
	"statefulsets.apps":                    `"spec":{"replicas":0,"serviceName":"s",` + selector + `,"template":` + podTemplate + `}`,
	"horizontalpodautoscalers.autoscaling": `"spec":{"maxReplicas":1,"scaleTargetRef":{"kind":"Deployment","name":"none","apiVersion":"apps/v1"}}`,
	"jobs.batch":                           `"spec":{"suspend":true,"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}`,
	"cronjobs.batch":                       `"spec":{"schedule":"0 0 1 1 *","suspend":true,"jobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}}`,
	"leases.coordination.k8s.io":           `"spec":{}`,
	"endpointslices.discovery.k8s.io":      `"addressType":"IPv4","endpoints":[]`,
	"ingresses.networking.k8s.io":          `"spec":{"defaultBackend":{"service":{"name":"s","port":{"number":80}}}}`,
	"ingressclasses.networking.k8s.io":     `"spec":{"controller":"example.com/c"}`,
	"networkpolicies.networking.k8s.io":    `"spec":{"podSelector":{}}`,
	"ipaddresses.networking.k8s.io":        refused, // its name is an address
	"servicecidrs.networking.k8s.io":       `"spec":{"cidrs":["10.9.0.0/24"]}`,
	"poddisruptionbudgets.policy":          `"spec":{` + selector + `}`,
	"clusterrolebindings.rbac.authorization.k8s.io":                  `"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"view"},"subjects":[]`,
	"clusterroles.rbac.authorization.k8s.io":                         `"rules":[]`,
	"rolebindings.rbac.authorization.k8s.io":                         `"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"view"},"subjects":[]`,
	"roles.rbac.authorization.k8s.io":                                `"rules":[]`,
	"apiservices.apiregistration.k8s.io":                             refused, // those of what the space serves
	"tenantaccesspolicies.tenantry.io":                               `"spec":{"subjects":[{"tenant":"third","kind":"User","name":"u"}],"rules":[{"verbs":["get"],"apiGroups":[""],"resources":["pods"],"namespaces":["x"]}]}`,
	"users.tenantry.io":                                              `"spec":{"username":"u"}`,
	"priorityclasses.scheduling.k8s.io":                              `"value":1`,
	"csidrivers.storage.k8s.io":                                      `"spec":{}`,
	"csinodes.storage.k8s.io":                                        refused,
	"csistoragecapacities.storage.k8s.io":                            `"storageClassName":"s"`,
	"storageclasses.storage.k8s.io":                                  `"provisioner":"example.com/p"`,
	"volumeattachments.storage.k8s.io":                               refused,
	"volumeattributesclasses.storage.k8s.io":                         `"driverName":"example.com/d","parameters":{"a":"b"}`,
	"runtimeclasses.node.k8s.io":                                     `"handler":"h"`,
	"flowschemas.flowcontrol.apiserver.k8s.io":                       `"spec":{"priorityLevelConfiguration":{"name":"none"}}`,
	"prioritylevelconfigurations.flowcontrol.apiserver.k8s.io":       `"spec":{"type":"Limited","limited":{"nominalConcurrencyShares":1,"limitResponse":{"type":"Reject"}}}`,
	"certificatesigningrequests.certificates.k8s.io":                 refused, // needs a signed request; has no data of tenants
	"customresourcedefinitions.apiextensions.k8s.io":                 refused, // its name is not free; see test/integration/controllers
	"mutatingwebhookconfigurations.admissionregistration.k8s.io":     ``,
	"validatingwebhookconfigurations.admissionregistration.k8s.io":   ``,
	"validatingadmissionpolicies.admissionregistration.k8s.io":       `"spec":{"failurePolicy":"Ignore","matchConstraints":{"resourceRules":[{"apiGroups":["none.example.com"],"apiVersions":["v1"],"operations":["CREATE"],"resources":["x"]}]},"validations":[{"expression":"true"}]}`,
	"validatingadmissionpolicybindings.admissionregistration.k8s.io": `"spec":{"policyName":"seed","validationActions":["Audit"]}`,
	"mutatingadmissionpolicies.admissionregistration.k8s.io":         `"spec":{"failurePolicy":"Ignore","reinvocationPolicy":"Never","matchConstraints":{"resourceRules":[{"apiGroups":["none.example.com"],"apiVersions":["v1"],"operations":["CREATE"],"resources":["x"]}]},"mutations":[{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":"Object{}"}}]}`,
	"mutatingadmissionpolicybindings.admissionregistration.k8s.io":   `"spec":{"policyName":"seed"}`,
	"deviceclasses.resource.k8s.io":                                  `"spec":{}`,
	"resourceclaims.resource.k8s.io":                                 `"spec":{}`,
	"resourceclaimtemplates.resource.k8s.io":                         `"spec":{"spec":{}}`,
	"resourceslices.resource.k8s.io":                                 refused,
	"devicetaintrules.resource.k8s.io":                               refused,
	"clustertrustbundles.certificates.k8s.io":                        `"spec":{"trustBundle":` + strconv.Quote(authority()) + `}`,
	"podcertificaterequests.certificates.k8s.io":                     refused, // needs a signed request
	"storageversionmigrations.storagemigration.k8s.io":               refused,
}

// refused marks what cannot be created freely in a space. Reading, changing and
// deleting it across spaces is tested all the same.
const refused = "refused"

// authority returns the certificate of some authority.
func authority() string {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err) // of a test
	}
	certificate, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "seed"}, key)
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: certificate.Raw}))
}
