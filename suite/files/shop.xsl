<?xml version="1.0"?>
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
<xsl:output method="html" indent="no"/>
<xsl:key name="kinds" match="item" use="@kind"/>
<xsl:template match="/shop">
<html><body>
<xsl:for-each select="item[generate-id() = generate-id(key('kinds', @kind)[1])]">
<xsl:sort select="@kind"/>
<h2><xsl:value-of select="@kind"/>: <xsl:value-of select="count(key('kinds', @kind))"/>,
<xsl:value-of select="format-number(sum(key('kinds', @kind)/price), '0.00')"/></h2>
<table><xsl:apply-templates select="key('kinds', @kind)"><xsl:sort select="price" data-type="number" order="descending"/>
</xsl:apply-templates></table>
</xsl:for-each>
</body></html>
</xsl:template>
<xsl:template match="item">
<tr id="{@id}"><td><xsl:value-of select="normalize-space(name)"/></td><td><xsl:value-of select="price"/></td>
<td><xsl:for-each select="tags/tag[@weight &gt; 20]"><xsl:sort select="."/>
<b title="{@weight}"><xsl:value-of select="translate(., 'abcdefghijklmnopqrstuvwxyz', 'ABCDEFGHIJKLMNOPQRSTUVWXYZ')"/></b>
</xsl:for-each></td>
<td><xsl:if test="stock &lt; 20">few</xsl:if></td></tr>
</xsl:template>
</xsl:stylesheet>
