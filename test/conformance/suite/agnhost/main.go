// Command agnhost is what Kubernetes' end-to-end tests of webhooks run in pods with
// an image of that name.
package main

import (
	"flag"
	"fmt"
	"net/http"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/test/images/agnhost/crd-conversion-webhook/converter"
	"k8s.io/kubernetes/test/images/agnhost/webhook"
)

func main() {
	klog.InitFlags(nil)
	root := &cobra.Command{Use: "agnhost"}
	root.PersistentFlags().AddGoFlagSet(flag.CommandLine)
	root.AddCommand(webhook.CmdWebhook, conversionWebhook())
	if err := root.Execute(); err != nil {
		os.Exit(1)
	}
}

// conversionWebhook is the image's command of that name, which would ask the cluster
// that its pod is in for an authority that it does not need.
func conversionWebhook() *cobra.Command {
	var certificate, key string
	var port int
	c := &cobra.Command{Use: "crd-conversion-webhook", RunE: func(*cobra.Command, []string) error {
		http.HandleFunc("/crdconvert", converter.ServeExampleConvert)
		return http.ListenAndServeTLS(fmt.Sprintf(":%d", port), certificate, key, nil)
	}}
	c.Flags().StringVar(&certificate, "tls-cert-file", "", "Certificate of the server.")
	c.Flags().StringVar(&key, "tls-private-key-file", "", "Its key.")
	c.Flags().IntVar(&port, "port", 443, "Port to listen at.")
	return c
}
